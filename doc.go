// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signalbox puts one MCP endpoint in front of many MCP servers: any
// client of any protocol revision can use any server of any revision.
//
//	cfg, err := signalbox.LoadConfig("signalbox.json", os.LookupEnv)
//	...
//	gateway, err := signalbox.New(*cfg, signalbox.Options{})
//	...
//	http.Handle("/mcp", gateway)
//
// A program's own tools are an [mcp.Handler] made by package mux; they stand in the
// gateway as [Options].InProcess, or are a server of their own by package server.
//
// A [Gateway] is an [net/http.Handler] and composes with everything that takes
// one. It is an [mcp.Handler] too, made of the Handlers of its backends:
//
//	client > server (legacy edge | modern edge)
//	       > Gateway: resolve the name in the catalog, route, call
//	       > client (legacy edge | modern edge) > backend
//
// What a request takes with it on that way, and what it may rely on, is said in
// package mcp. What is promised when something fails: at most one execution by
// us, never silence, and an error says whether the call may have run.
package signalbox
