// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// A server made with the TypeScript SDK 1.x, which speaks the legacy era alone:
// over HTTP with --listen, with a session for each client, else over standard input
// and output. The first argument is the one resource template that is its alone.

import { randomUUID } from 'node:crypto';
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  CreateMessageResultSchema,
  CreateMessageResultWithToolsSchema,
  ElicitResultSchema,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListRootsResultSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { capabilities, describe, House, questions, serve, text } from './offers.mjs';

const board = process.argv[2];
const listen = process.argv.includes('--listen');
// What the revisions of this SDK have for it; it has no name for it.
const NOT_FOUND = -32002;
const house = new House(board, (uri) => new McpError(NOT_FOUND, 'Resource not found', { uri }), ['keep']);
// Tasks outlive the session of whoever began them.
const taskStore = new InMemoryTaskStore();
const tasks = { list: {}, cancel: {}, requests: { tools: { call: {} } } };
// How often a client shall ask for a task, and how long it is kept.
const TASK_POLL_MS = 100;
const TASK_TTL_MS = 600_000;


const answerSchemas = {
  elicit: ElicitResultSchema,
  roots: ListRootsResultSchema,
  sample: CreateMessageResultSchema,
  use: CreateMessageResultWithToolsSchema,
  visit: ElicitResultSchema,
};

// newServer returns a server for one session.
function newServer() {
  const server = new Server({ name: 'server-ts1', version: '1.0.0' }, { capabilities: { ...capabilities, tasks }, taskStore });
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => house.listTools(params?.cursor));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) => house.call(params.name, params.arguments, callOf(params, extra)));
  server.setRequestHandler(ListResourcesRequestSchema, () => house.listResources());
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => house.listTemplates());
  server.setRequestHandler(ReadResourceRequestSchema, ({ params }) => house.read(params.uri));
  server.setRequestHandler(ListPromptsRequestSchema, () => house.listPrompts());
  server.setRequestHandler(GetPromptRequestSchema, ({ params }) => house.getPrompt(params.arguments));
  server.setRequestHandler(CompleteRequestSchema, ({ params }) => house.complete(params.ref, params.argument));
  tellOfChanges(server);
  return server;
}

function tellOfChanges(server) {
  const subscribed = new Set();
  server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
    subscribed.add(params.uri);
    return {};
  });
  server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
  const changed = () => server.sendToolListChanged();
  const updated = async (uri) => subscribed.has(uri) && server.sendResourceUpdated({ uri });
  house.onChange.add(changed);
  house.onUpdate.add(updated);
  server.onclose = () => {
    house.onChange.delete(changed);
    house.onUpdate.delete(updated);
  };
}

// callOf returns what the tools need of a call.
function callOf(params, extra) {
  return {
    signal: extra.signal,
    header: (name) => extra.requestInfo?.headers[name],
    progressToken: params._meta?.progressToken,
    progress: (progress) => extra.sendNotification({ method: 'notifications/progress', params: progress }),
    log: (data) => extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data } }),
    // The work is done beside the call where the client wants a task, and else in it.
    brew: async (what) => {
      if (!params.task) return text(`brewed ${what}`);
      const task = await extra.taskStore.createTask({ ttl: TASK_TTL_MS, pollInterval: TASK_POLL_MS });
      const done = () => extra.taskStore.storeTaskResult(task.taskId, 'completed', text(`brewed ${what}`));
      setTimeout(() => done().catch(console.error), TASK_POLL_MS);
      return { task };
    },
    ask: async (kinds) => {
      const asked = kinds.map(async (kind) => [kind, await extra.sendRequest(questions[kind], answerSchemas[kind])]);
      return describe(kinds, Object.fromEntries(await Promise.all(asked)));
    },
  };
}

const transports = new Map();

async function handle(req, res) {
  const known = transports.get(req.headers['mcp-session-id']);
  if (known) return known.handleRequest(req, res);
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => transports.set(id, transport),
    onsessionclosed: (id) => transports.delete(id),
  });
  await newServer().connect(transport);
  await transport.handleRequest(req, res);
}

if (listen) serve(handle);
else await newServer().connect(new StdioServerTransport());
