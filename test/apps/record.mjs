// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Records the calls of tools that a server on standard input and output gets, and its answers:
//
//	RECORD=FILE node --import ./record.mjs SERVER --stdio
//
// The program of the server is not changed.

import { appendFileSync } from 'node:fs';

const calls = new Map();

// note appends a call that has its answer to a file, before the answer is sent.
export function note(file, params, answer) {
  appendFileSync(file, `${JSON.stringify({ name: params.name, arguments: params.arguments, ...answer })}\n`);
}

// lines calls take with each line of the chunks that it is given.
function lines(take) {
  let rest = '';
  const decoder = new TextDecoder();
  return (chunk) => {
    const all = (rest + (typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true }))).split('\n');
    rest = all.pop();
    for (const line of all) if (line.trim()) take(JSON.parse(line));
  };
}

if (process.env.RECORD) {
  const input = lines((message) => {
    if (message.method === 'tools/call') calls.set(message.id, message.params);
  });
  const output = lines(({ id, result, error }) => {
    const params = calls.get(id);
    if (!params || (!result && !error)) return;
    calls.delete(id);
    note(process.env.RECORD, params, { result, error });
  });
  // A listener of our own would start the stream before the server listens to it.
  const { emit } = process.stdin;
  process.stdin.emit = function emitRecorded(event, chunk) {
    if (event === 'data') input(chunk);
    return emit.apply(this, arguments);
  };
  const { write } = process.stdout;
  process.stdout.write = function writeRecorded(chunk) {
    output(chunk);
    return write.apply(this, arguments);
  };
}
