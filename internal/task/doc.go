// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package task converts between the two forms of MCP tasks: that of the extension
// io.modelcontextprotocol/tasks, which is used inside the gateway, and that of revision
// 2025-11-25.
//
//	extension                            2025-11-25
//	the client declares it, the          params.task asks for a task, where
//	server decides on each call          capabilities and the tool allow it
//	{"resultType":"task","taskId":...}   {"task":{"taskId":...}}
//	ttlMs, pollIntervalMs                ttl, pollInterval
//	tasks/get has result and error       tasks/result waits for them
//	failed is a JSON-RPC error           failed is also a result with isError
//	inputRequests, tasks/update          requests of the server during tasks/result
//
// It changes the members that differ and keeps the bytes of all others. It has no
// state. Only Await starts goroutines, and waits for them.
package task
