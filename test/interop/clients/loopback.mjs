// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Runs the HTTP server whose module is the first argument (the other arguments
// are its own) with three differences: it listens on loopback only, on a port
// that is free, which it prints; and it ends when its standard input does.

import net from 'node:net';
import { pathToFileURL } from 'node:url';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function listenOnLoopback(...args) {
  this.once('listening', () => console.error(`listening on http://127.0.0.1:${this.address().port}/mcp`));
  const callback = args.findLast((arg) => typeof arg === 'function');
  return listen.call(this, { host: '127.0.0.1', port: 0 }, callback);
};

process.stdin.on('end', () => process.exit(0)).resume();
process.argv.splice(1, 1);
await import(pathToFileURL(process.argv[1]).href);
