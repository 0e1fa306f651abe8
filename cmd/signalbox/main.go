// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The command signalbox puts one MCP endpoint in front of many MCP servers, and
// talks to such endpoints from a shell.
package main

import (
	"context"
	"os"
)

// main is all that cannot be tested in the process of its test: the exit.
func main() {
	os.Exit(run(context.Background(), osEnv(), os.Args[1:]))
}
