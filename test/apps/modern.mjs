// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Serves servers of the legacy era in the modern one, over HTTP:
//
//	node modern.mjs FOLDER NAME...
//
// It prints the address of the first, http://127.0.0.1:PORT/NAME. The SDK has both edges; in
// between, a request is passed on as it is. The calls of tools are recorded in
// FOLDER/NAME.jsonl, and the header fields of all requests in FOLDER/headers.jsonl. It ends when its standard input does.

import { appendFileSync } from 'node:fs';
import { createServer as createHTTPServer } from 'node:http';
import { join } from 'node:path';
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, ProtocolError, Server } from '@modelcontextprotocol/server';
import { create } from './servers.mjs';
import { note } from './record.mjs';

const [folder, ...names] = process.argv.slice(2);
const methods = ['tools/list', 'tools/call', 'resources/list', 'resources/templates/list', 'resources/read'];

async function handler(name) {
  const inner = new Client({ name: 'modern', version: '1.0.0' });
  const [here, there] = InMemoryTransport.createLinkedPair();
  await (await create(name, folder)).connect(there);
  await inner.connect(here);
  const capabilities = inner.getServerCapabilities();
  const pass = async (method, { _meta, ...params } = {}) => {
    const answer = await inner.request({ method, params }).then((result) => ({ result }), (error) => ({ error }));
    if (method === 'tools/call') note(join(folder, `${name}.jsonl`), params, answer);
    if (answer.error) throw new ProtocolError(answer.error.code, answer.error.message, answer.error.data);
    return answer.result;
  };
  return toNodeHandler(
    createMcpHandler(
      () => {
        const server = new Server(inner.getServerVersion(), { capabilities });
        for (const method of methods) {
          if (capabilities[method.split('/')[0]]) server.setRequestHandler(method, (request) => pass(method, request.params));
        }
        return server;
      },
      { legacy: 'reject' },
    ),
  );
}

const handlers = new Map();
for (const name of names) handlers.set(`/${name}`, await handler(name));
const http = createHTTPServer((req, res) => {
  const serve = handlers.get(req.url);
  if (serve) {
    appendFileSync(join(folder, 'headers.jsonl'), `${JSON.stringify(req.rawHeaders)}\n`);
    return serve(req, res);
  }
  res.writeHead(404).end();
});
http.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${http.address().port}/${names[0]}`));
process.stdin.on('end', () => process.exit(0)).resume();
