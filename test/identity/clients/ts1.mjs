// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The client of the TypeScript SDK 1.x, which signs in by itself. It offers one version,
// its newest.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { job, Memory, run } from './dialog.mjs';

const memory = new Memory();
let client, transport;

await run(memory, (error) => error instanceof UnauthorizedError, {
  connect: async () => {
    client = new Client({ name: 'ts1', version: '1.0.0' }, { capabilities: {} });
    transport = new StreamableHTTPClientTransport(new URL(job.url), { authProvider: memory });
    let version;
    const tell = transport.setProtocolVersion.bind(transport);
    transport.setProtocolVersion = (v) => tell((version = v));
    await client.connect(transport);
    return version;
  },
  finish: (callback) => transport.finishAuth(callback.get('code')),
  tools: async () => (await client.listTools()).tools.map((t) => t.name),
  call: async (name, args) => text(await client.callTool({ name, arguments: args })),
  close: () => client.close(),
});

function text(result) {
  return { text: result.content?.[0]?.text ?? '', failed: result.isError === true };
}
