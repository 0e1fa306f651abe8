// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package relay passes the lines of one MCP client to a gateway that may be replaced.
//
// Lines pass as they are. A Relay reads no more of them than the ids and methods of their
// messages, and holds no more of a long line than its first part.
//
// When the gateway is gone, each request in flight is answered with an error that it may
// have run, and is not sent again. The next request finds or starts another gateway. For
// a session of the legacy era the Relay then repeats the initialize and what the client
// has set in its session, and reports all that the client listens to as changed. Listens
// of the modern era are ended, so that the client opens them again (2026-07-28,
// basic/patterns/subscriptions).
//
// A Relay sends a line again only if the gateway has certainly not received its end, if the
// gateway has refused it because it shuts down, or if it is a handshake, which runs nothing.
package relay
