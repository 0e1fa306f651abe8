// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package frame splits a byte stream into messages and encodes messages, in the two
// framings of MCP: server-sent events over HTTP and lines over stdio. It does not look
// inside messages.
//
// Both readers have a limit, which bounds their memory whatever arrives. A message over
// the limit is reported as a [TooLongError], the rest of it is skipped, and the next
// message is read as usual.
//
// Returned messages belong to the caller, because a message outlives the next read. A
// small message is copied out of the read buffer; a large one takes the buffer with it,
// and a new buffer is allocated.
//
// Readers must be used by one goroutine. The Append functions write to memory only and
// do not keep their arguments.
package frame
