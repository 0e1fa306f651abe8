// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Errors that methods of this package return.
var (
	// ErrEnded is returned by operations on a session that has ended.
	ErrEnded = fmt.Errorf("the session has ended: %w", mcp.ErrRequestEnded)

	// ErrDuplicate is returned for a request with the id of a request in flight.
	ErrDuplicate = errors.New("a request with this id is in flight")

	// ErrTooMany is returned for a request or an ask beyond the limit.
	ErrTooMany = errors.New("too many concurrent requests")

	// ErrUnknown is returned for a session that does not exist or that the principal must
	// not see.
	ErrUnknown = errors.New("session not found")

	// ErrForeign is returned for a session of another principal, and wraps ErrUnknown. It
	// is meant for the operator's log; the client must not learn the difference.
	ErrForeign = fmt.Errorf("session belongs to another principal: %w", ErrUnknown)

	// ErrUnknownEvent is returned for an event id that was never issued, was issued in
	// another session, or is too old to be remembered.
	ErrUnknownEvent = errors.New("unknown event id")

	// ErrNoReceiver is returned for an ask that no consumer will ever take.
	ErrNoReceiver = errors.New("client disconnected")
)

// Limits bound one session, or one exchange without a session. All fields but the rate
// limits must be set.
type Limits struct {
	Messages  int // queued on one stream
	Bytes     int // queued on one stream; one larger message fits alone
	Exchanges int // in flight in one session
	Asks      int // unanswered, in one session
	Streams   int // consumers of one stream that clients may open, superseded ones included

	LogBytes int           // retained by a session for clients that reconnect; one larger result is retained in addition
	LogKeep  time.Duration // how long the messages of a request are retained after its end

	Progress RateLimit // of one exchange
	Logs     RateLimit // of one exchange
}

// DefaultLimits returns the default limits: 1 MiB of unread messages per stream, 64
// concurrent requests, 16 consumers, 1 MiB or five minutes of messages to replay, and rate
// limits that ordinary progress and logging never reach.
func DefaultLimits() Limits {
	return Limits{
		Messages: 1024, Bytes: 1 << 20, Exchanges: 64, Asks: 16, Streams: 16,
		LogBytes: 1 << 20, LogKeep: 5 * time.Minute,
		Progress: RateLimit{Burst: 100, Every: 100 * time.Millisecond},
		Logs:     RateLimit{Burst: 1000, Every: 10 * time.Millisecond},
	}
}

// Counters count messages that were lost, merged or undeliverable. Any number of sessions
// and exchanges may share them. They may be read concurrently.
type Counters struct {
	Dropped     atomic.Uint64 // messages dropped for a slow or absent receiver, and progress that did not increase
	Merged      atomic.Uint64 // messages replaced by a newer one with the same meaning
	Undelivered atomic.Uint64 // terminals for a client that had disconnected
	Strays      atomic.Uint64 // answers to an unknown ask
	Replayed    atomic.Uint64 // messages replayed to a client that reconnected
	Purged      atomic.Uint64 // retained messages dropped early to stay within a limit
}

// Rules are the settings shared by the sessions and exchanges of one server. They must not
// be modified while in use.
type Rules struct {
	Limits Limits
	Counts *Counters
	Logs   *LogPool // shared by all sessions; nil means no shared limit

	Pending *Pending // nil means no limit on unread answers
}
