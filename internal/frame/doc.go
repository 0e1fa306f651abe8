// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package frame cuts a stream of bytes into messages and back, in the two ways
// that MCP has: server-sent events over HTTP and lines over stdio. It knows
// nothing of what is inside a message.
//
// Both readers take a limit and keep to it: memory is bounded by it, whatever
// arrives. A message over the limit is reported as a [TooLongError], the rest of
// it is thrown away, and the next message is read as if nothing had happened.
//
// What a reader returns belongs to the caller, because a message outlives the
// next read. A small message is copied out of the read buffer; for a large one
// the buffer itself is given away and a new one is begun.
//
// Readers are for one goroutine. The Append functions write to memory only and
// do not keep their arguments.
package frame
