// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The servers: those of packages with apps, and one of ours without any, which is a program on
// standard input and output, too.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';

// plain is the name of the server without apps.
export const plain = 'plain';

// documentIn is a file in a folder, for the server of PDF files, which writes it, too.
export const documentIn = (folder) => join(folder, 'signal.pdf');

// create returns a server that can be connected once.
export async function create(name, folder) {
  if (name === plain) return createPlain();
  const { createServer, allowedLocalFiles } = await import(`@modelcontextprotocol/server-${name}`);
  if (!allowedLocalFiles) return createServer();
  allowedLocalFiles.add(documentIn(folder));
  return createServer({ enableInteract: true }); // as on standard input and output
}

function createPlain() {
  const server = new McpServer({ name: 'plain', version: '1.0.0' });
  server.registerTool('note', { description: 'Keeps a note.' }, () => ({ content: [{ type: 'text', text: 'kept' }] }));
  return server;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await createPlain().connect(new StdioServerTransport());
