// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The command signalbox puts one MCP endpoint in front of many MCP servers, and
// talks to such endpoints from a shell.
//
//	serve                          a Gateway, on HTTP or on stdio
//	tools, resources, prompts,     a request to a Gateway of its own,
//	call, read                     or with --url to a server that runs
//	status                         what a Gateway that runs says of itself
//	check                          a configuration, and nothing started for it
//
// All of them keep to the same rules:
//
//   - Standard output is what was asked for and nothing else; what is said
//     besides goes to standard error, so that a pipe never has to tell them apart.
//   - A server's words are shown and never obeyed: on a terminal each character
//     that would move the cursor stands as an escape. A pipe gets the bytes.
//   - The exit code is 0, 1 for what failed, and 2 for a command line that is
//     wrong, for which nothing was started.
//   - An error says what is wrong, where, and what would help.
//   - Nothing outlives the command: each process that it started is ended before
//     it returns, and dies with it when it is killed.
//
// A command reaches the world through its env only, so that a test can run it in
// its own process; the transcripts in testdata/script run it as one of its own.
package main

import (
	"context"
	"os"
)

// main is all that cannot be tested in the process of its test: the exit.
func main() {
	os.Exit(run(context.Background(), osEnv(), os.Args[1:]))
}
