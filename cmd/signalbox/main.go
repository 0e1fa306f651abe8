// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The command signalbox puts one MCP endpoint in front of many MCP servers, and
// talks to such endpoints from a shell.
//
//	serve                          run a Gateway, on HTTP or on stdio
//	tools, resources, prompts,     make a request to a Gateway, or with --url
//	call, read                     to any MCP server
//	status                         print the state of a running Gateway
//	reload                         reload the configuration of a running Gateway
//	check                          validate a configuration
//
// All commands follow these rules:
//
//   - Standard output has the requested output only. Everything else is written to
//     standard error.
//   - Text from a server is never interpreted: on a terminal, each character that would
//     move the cursor is escaped. A pipe receives the bytes unmodified.
//   - The exit code is 0 for success, 1 for a failure, and 2 for an invalid command line,
//     for which nothing was started.
//   - An error names its cause, its place and a cure.
//   - No process outlives the command: the processes that it starts are ended before it
//     returns, and die with it if it is killed.
//
// A command uses the outside world only through its env, so that tests can run it in their
// own process. The transcripts in testdata/script run it as a process.
package main

import (
	"context"
	"os"
)

// main only exits with the code of run, which tests can call.
func main() {
	os.Exit(run(context.Background(), osEnv(), os.Args[1:]))
}
