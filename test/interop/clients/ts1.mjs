// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The client of the TypeScript SDK 1.x. It offers one version, its newest.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { allPages, answers, capabilities, main, standaloneOpened } from './features.mjs';

async function connect(job, inbox) {
  const client = new Client(
    { name: 'ts1', version: '1.0.0' },
    { capabilities },
  );
  listenFor(client, job, inbox);
  const standalone = standaloneOpened();
  const transport = job.target.url
    ? new StreamableHTTPClientTransport(new URL(job.target.url), { fetch: standalone.fetch, authProvider: authProvider(job.target) })
    : new StdioClientTransport({ ...job.target, stderr: 'ignore' });
  let version;
  // The SDK passes the version only to the transport.
  const tell = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (v) => {
    version = v;
    tell?.(v);
  };
  await client.connect(transport);
  if (job.target.url) await standalone.opened;
  return session(client, transport, version);
}

// This SDK has no simpler way for a token than a provider that has signed in before.
function authProvider({ token }) {
  return token && { tokens: () => ({ access_token: token, token_type: 'Bearer' }) };
}

function listenFor(client, job, inbox) {
  const answer = answers(job);
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer.elicit(params));
  client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => answer.sample(params));
  client.setRequestHandler(ListRootsRequestSchema, () => answer.roots);
  client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => inbox.log(n.params));
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => inbox.changed('tools'));
  client.setNotificationHandler(ResourceListChangedNotificationSchema, () => inbox.changed('resources'));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => inbox.updated(n.params));
  client.setNotificationHandler(PromptListChangedNotificationSchema, () => inbox.changed('prompts'));
}

function session(client, transport, version) {
  return {
    version,
    tools: () => allPages((p) => client.listTools(p), (r) => r.tools.map((t) => t.name)),
    resources: () => allPages((p) => client.listResources(p), (r) => r.resources.map((t) => t.uri)),
    templates: () => allPages((p) => client.listResourceTemplates(p), (r) => r.resourceTemplates.map((t) => t.uriTemplate)),
    prompts: () => allPages((p) => client.listPrompts(p), (r) => r.prompts.map((t) => t.name)),
    call: (params, options) => client.callTool(params, undefined, options),
    capabilities: () => client.getServerCapabilities(),
    instructions: () => client.getInstructions(),
    // A task is begun, polled until it has ended, and then asked for its result.
    task: async (params, options) => {
      let began = false;
      for await (const said of client.experimental.tasks.callToolStream(params, undefined, { ...options, task: {} })) {
        if (said.type === 'taskCreated') began = true;
        if (said.type === 'error') throw said.error;
        if (said.type === 'result' && began) return said.result;
      }
      throw new Error('there was no task');
    },
    complete: (params) => client.complete(params),
    read: (params) => client.readResource(params),
    get: (params) => client.getPrompt(params),
    setLevel: (level) => client.setLoggingLevel(level),
    subscribe: async (uri) => {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    watch: async () => undefined,
    close: async () => {
      await transport.terminateSession?.();
      await client.close();
    },
  };
}

await main(connect);
