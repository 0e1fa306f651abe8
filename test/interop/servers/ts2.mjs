// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// A server made with the TypeScript SDK 2.x, in both eras: over HTTP with --listen,
// where a legacy client has a session, else over standard input and output. The
// first argument is the one resource template that is its alone.

import { randomUUID } from 'node:crypto';
import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, isLegacyRequest, ResourceNotFoundError, Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { capabilities, describe, House, questions, serve, text } from './offers.mjs';

const board = process.argv[2];
const listen = process.argv.includes('--listen');
const house = new House(board, (uri) => new ResourceNotFoundError(uri), ['brew']);

// newServer returns a server for one session or, in the modern era, for one
// request.
function newServer({ era }) {
  const server = new Server({ name: 'server-ts2', version: '1.0.0' }, { capabilities });
  server.setRequestHandler('tools/list', ({ params }) => house.listTools(params?.cursor));
  server.setRequestHandler('tools/call', ({ params }, ctx) => house.call(params.name, params.arguments, callOf(ctx)));
  server.setRequestHandler('resources/list', () => house.listResources());
  server.setRequestHandler('resources/templates/list', () => house.listTemplates());
  server.setRequestHandler('resources/read', ({ params }) => house.read(params.uri));
  server.setRequestHandler('prompts/list', () => house.listPrompts());
  server.setRequestHandler('prompts/get', ({ params }) => house.getPrompt(params.arguments));
  server.setRequestHandler('completion/complete', ({ params }) => house.complete(params.ref, params.argument));
  if (era === 'legacy' || !listen) tellOfChanges(server, era);
  return server;
}

// tellOfChanges notifies the session. In the modern era it is used on pipes only, and
// the SDK knows the subscriptions.
function tellOfChanges(server, era) {
  const subscribed = new Set();
  if (era === 'legacy') {
    server.setRequestHandler('resources/subscribe', ({ params }) => {
      subscribed.add(params.uri);
      return {};
    });
    server.setRequestHandler('resources/unsubscribe', ({ params }) => {
      subscribed.delete(params.uri);
      return {};
    });
  }
  const changed = () => server.sendToolListChanged();
  const updated = async (uri) => (era === 'modern' || subscribed.has(uri)) && server.sendResourceUpdated({ uri });
  house.onChange.add(changed);
  house.onUpdate.add(updated);
  server.onclose = () => {
    house.onChange.delete(changed);
    house.onUpdate.delete(updated);
  };
}

// callOf returns what the tools need of a call.
function callOf({ mcpReq: request, http }) {
  const answers = request.inputResponses ?? {};
  const askFor = (kinds, requestState) =>
    inputRequired({ requestState, inputRequests: Object.fromEntries(kinds.map((kind) => [kind, questions[kind]])) });
  return {
    header: (name) => http?.req?.headers.get(name),
    signal: request.signal,
    progressToken: request._meta?.progressToken,
    progress: (params) => request.notify({ method: 'notifications/progress', params }),
    log: (data) => request.log('info', data),
    // A legacy client is asked by requests of the SDK's, which then calls again.
    ask: (kinds) => {
      return kinds.every((kind) => answers[kind]) ? describe(kinds, answers) : askFor(kinds);
    },
    // What it asked with comes back with the answer.
    keep: (key) => (answers.elicit ? text(request.requestState()) : askFor(['elicit'], `state of ${key}`)),
  };
}

function serveHTTP() {
  const modern = createMcpHandler(newServer, { legacy: 'reject' });
  house.onChange.add(() => modern.notify.toolsChanged());
  house.onUpdate.add((uri) => modern.notify.resourceUpdated(uri));
  const answer = toNodeHandler(modern);
  const transports = new Map();
  serve(async (req, res) => {
    const body = await bodyOf(req);
    if (!(await isLegacyRequest(await toWebRequest(req, body), body))) return answer(req, res, body);
    const known = transports.get(req.headers['mcp-session-id']);
    if (known) return known.handleRequest(req, res, body);
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => transports.set(id, transport),
      onsessionclosed: (id) => transports.delete(id),
    });
    await newServer({ era: 'legacy' }).connect(transport);
    return transport.handleRequest(req, res, body);
  });
}

async function bodyOf(req) {
  if (req.method !== 'POST') return undefined;
  return JSON.parse(Buffer.concat(await Array.fromAsync(req)).toString());
}

if (listen) serveHTTP();
else serveStdio(newServer);
