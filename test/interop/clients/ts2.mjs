// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The client of the TypeScript SDK 2.x: any legacy version, or the modern era.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answers, capabilities, LIMIT_MS, main, standaloneOpened } from './features.mjs';

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

async function connect(job, inbox) {
  const modern = job.era === 'modern';
  const client = new Client(
    { name: 'ts2', version: '1.0.0' },
    {
      capabilities,
      ...(modern ? { versionNegotiation: { mode: { pin: job.version }, probe: { timeoutMs: LIMIT_MS } } } : { supportedProtocolVersions: [job.version] }),
    },
  );
  listenFor(client, job, inbox);
  const standalone = standaloneOpened();
  const transport = job.target.url
    ? new StreamableHTTPClientTransport(new URL(job.target.url), { fetch: standalone.fetch, authProvider: authProvider(job.target) })
    : new StdioClientTransport({ ...job.target, stderr: 'ignore' });
  await client.connect(transport);
  if (job.target.url && !modern) await standalone.opened;
  return session(client, transport, modern);
}

// The SDK asks for the token before each request.
function authProvider({ token }) {
  return token && { token: async () => token };
}

function listenFor(client, job, inbox) {
  const answer = answers(job);
  client.setRequestHandler('elicitation/create', ({ params }) => answer.elicit(params));
  client.setRequestHandler('sampling/createMessage', ({ params }) => answer.sample(params));
  client.setRequestHandler('roots/list', () => answer.roots);
  client.setNotificationHandler('notifications/message', (n) => inbox.log(n.params));
  client.setNotificationHandler('notifications/resources/updated', (n) => inbox.updated(n.params));
  for (const kind of ['tools', 'resources', 'prompts']) {
    client.setNotificationHandler(`notifications/${kind}/list_changed`, () => inbox.changed(kind));
  }
}

function session(client, transport, modern) {
  // Without a cursor this SDK walks all pages itself; a list from its cache
  // would say nothing about the server.
  const fresh = { cacheMode: 'refresh' };
  let meta;
  return {
    version: client.getNegotiatedProtocolVersion(),
    tools: async () => (await client.listTools(undefined, fresh)).tools.map((t) => t.name),
    resources: async () => (await client.listResources(undefined, fresh)).resources.map((t) => t.uri),
    templates: async () => (await client.listResourceTemplates(undefined, fresh)).resourceTemplates.map((t) => t.uriTemplate),
    prompts: async () => (await client.listPrompts(undefined, fresh)).prompts.map((t) => t.name),
    call: (params, options) => client.callTool(meta ? { ...params, _meta: meta } : params, options),
    capabilities: () => client.getServerCapabilities(),
    instructions: () => client.getInstructions(),
    complete: (params) => client.complete(params),
    read: (params) => client.readResource(params, fresh),
    get: (params) => client.getPrompt(params),
    // In the modern era the level goes with each request.
    setLevel: async (level) => {
      if (!modern) return client.setLoggingLevel(level);
      meta = { [LOG_LEVEL]: level };
    },
    subscribe: async (uri) => {
      if (modern) {
        const subscription = await client.listen({ resourceSubscriptions: [uri] });
        return () => subscription.close();
      }
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    watch: async (kind) => {
      if (modern) await client.listen({ [`${kind}ListChanged`]: true });
    },
    close: async () => {
      if (!modern) await transport.terminateSession?.();
      await client.close();
    },
  };
}

await main(connect);
