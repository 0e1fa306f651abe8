// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultyserver keeps MCP servers that misbehave, each in the way that a test
// asks for. They speak the wire and nothing else: what stands on it is in the
// test's hands, byte for byte and moment for moment.
//
// An [HTTP] serves Streamable HTTP and a [Lines] a stream of lines, both with
// the manners of a plain server of either era where the test says nothing.
package faultyserver
