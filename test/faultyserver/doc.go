// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultyserver provides MCP servers that misbehave as a test requires. The test
// controls their messages byte for byte and their timing.
//
// An [HTTP] serves Streamable HTTP and a [Lines] a stream of lines. Unless the test
// specifies otherwise, both behave like a correct server of either era.
package faultyserver
