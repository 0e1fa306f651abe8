// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The client of the TypeScript SDK 2.x, which signs in by itself.

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { job, Memory, run } from './dialog.mjs';

const memory = new Memory();
let client, transport;

const modern = { mode: { pin: job.version } };
const versions = job.version >= '2026' ? { versionNegotiation: modern } : { supportedProtocolVersions: [job.version] };

await run(memory, (error) => error instanceof UnauthorizedError, {
  connect: async () => {
    client = new Client({ name: 'ts2', version: '1.0.0' }, { capabilities: {}, ...versions });
    transport = new StreamableHTTPClientTransport(new URL(job.url), { authProvider: memory });
    await client.connect(transport);
    return client.getNegotiatedProtocolVersion();
  },
  finish: (callback) => transport.finishAuth(callback),
  tools: async () => (await client.listTools(undefined, { cacheMode: 'refresh' })).tools.map((t) => t.name),
  call: async (name, args) => text(await client.callTool({ name, arguments: args })),
  close: () => client.close(),
});

function text(result) {
  return { text: result.content?.[0]?.text ?? '', failed: result.isError === true };
}
