// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command search measures how many of the tools that a task needs are found by package
// internal/search, and by the full-text search of SQLite for the same tools and queries:
//
//	cd test/search && go run . -livemcp LiveMCPBench -mcpproxy mcpproxy-go -bfcl gorilla
//
// The arguments are checkouts of the repositories icip-cas/LiveMCPBench (527 tools with 95
// annotated tasks), smart-mcp-proxy/mcpproxy-go (45 tools with 47 annotated queries) and
// ShishirPatil/gorilla (functions with questions). It prints the table of docs/search.md.
//
// It is a module of its own, because SQLite is needed for nothing else.
package main
