// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command poisoning judges the definitions of real servers and of published attacks by package internal/pins: which are
// held for hidden text, and which have advice.
//
//	go run ./test/poisoning -livemcp LiveMCPBench -mcpproxy mcpproxy-go -dvmcp damn-vulnerable-MCP-server
//
// The arguments are checkouts of the repositories icip-cas/LiveMCPBench (Apache-2.0, 527 tools of real servers),
// smart-mcp-proxy/mcpproxy-go (MIT, 100 labelled texts) and harishsg993010/damn-vulnerable-MCP-server (MIT, servers to attack). It
// prints the table of docs/pins.md. The exit status is 1 if a definition is held that should not be, or the reverse.
package main
