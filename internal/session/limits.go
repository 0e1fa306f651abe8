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

// Why a machine refuses.
var (
	// ErrEnded is for what belongs to a session that has ended.
	ErrEnded = fmt.Errorf("the session has ended: %w", mcp.ErrRequestEnded)

	// ErrDuplicate is for a request whose id belongs to one that still runs.
	ErrDuplicate = errors.New("a request with this id is in flight")

	// ErrTooMany is for a request or an ask beyond the limit.
	ErrTooMany = errors.New("too many at once")

	// ErrUnknown is for a session that does not exist, or not for this
	// principal.
	ErrUnknown = errors.New("session not found")

	// ErrForeign is the ErrUnknown of a session that another principal has. It
	// is for the operator to hear of; whoever asked must not.
	ErrForeign = fmt.Errorf("the session of another principal: %w", ErrUnknown)

	// ErrUnknownEvent is for an event id that was never given out, or not in this
	// session, or too long ago for anybody to know.
	ErrUnknownEvent = errors.New("unknown event id")

	// ErrNoReceiver is for an ask that no carrier will ever take.
	ErrNoReceiver = errors.New("the client's connection is gone")
)

// Limits bound one session, or one exchange without a session. All
// must be set but for the paces.
type Limits struct {
	Messages  int // that wait on one stream
	Bytes     int // that wait on one stream; one larger message fits alone
	Exchanges int // in flight in one session
	Asks      int // without an answer, in one session
	Streams   int // carriers of one stream that clients may open, those that were superseded included

	LogBytes int           // that a session keeps for clients that come back; one larger result besides
	LogKeep  time.Duration // for which the messages of a request are kept once it has ended

	Progress RateLimit // of one exchange
	Logs     RateLimit // of one exchange
}

// DefaultLimits returns the defaults: a megabyte of what a client has
// not taken yet, 64 requests at once, 16 streams, a megabyte or five minutes of
// what it may have lost, and for each request a pace that ordinary steps and logs
// never reach.
func DefaultLimits() Limits {
	return Limits{
		Messages: 1024, Bytes: 1 << 20, Exchanges: 64, Asks: 16, Streams: 16,
		LogBytes: 1 << 20, LogKeep: 5 * time.Minute,
		Progress: RateLimit{Burst: 100, Every: 100 * time.Millisecond},
		Logs:     RateLimit{Burst: 1000, Every: 10 * time.Millisecond},
	}
}

// Counters count what was lost or answered to nobody. They may be shared by any
// number of machines and read at any time.
type Counters struct {
	Dropped     atomic.Uint64 // messages that a slow or absent receiver did not get, and progress that did not advance
	Merged      atomic.Uint64 // messages that a newer one of the same meaning replaced
	Undelivered atomic.Uint64 // terminals for a client that was gone
	Strays      atomic.Uint64 // answers to no ask of ours
	Replayed    atomic.Uint64 // messages that a client has come back for
	Purged      atomic.Uint64 // messages that were given up before their time, for want of room
}

// Rules are what the machines of one server have in common. They are not
// changed while a machine uses them.
type Rules struct {
	Limits Limits
	Counts *Counters
	Logs   *LogPool // nil is no bound for all sessions together

	Pending *Pending // nil is no bound of what clients have not read
}
