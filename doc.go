// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signalbox puts one MCP endpoint in front of many MCP servers: any client of
// any protocol revision can use any server of any revision.
//
//	cfg, err := config.Load("signalbox.json", os.LookupEnv)
//	...
//	gateway, err := signalbox.New(*cfg, signalbox.Options{})
//	...
//	http.Handle("/mcp", gateway)
//
// A program's own tools are an [mcp.Handler] made by package mux. Pass it to the
// gateway in [Options].InProcess, or serve it alone with package server.
//
// A [Gateway] is an [net/http.Handler] and composes with everything that takes one. It
// is also an [mcp.Handler], made of the Handlers of its backends:
//
//	client > server (legacy edge | modern edge)
//	       > Gateway: resolve the name in the catalog, route, call
//	       > client (legacy edge | modern edge) > backend
//
// Package mcp documents what a request carries along this path and what it may rely on.
// If something fails, the gateway executes a request at most once, always answers, and
// reports in the error whether the call may have run.
package signalbox
