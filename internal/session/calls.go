// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Terminal is the end of a call: a result or an error.
type Terminal struct {
	Result *mcp.Result
	Err    error
}

// CallStats counts events of the calls of a connection.
type CallStats struct {
	Open    int    // calls without a terminal
	Late    uint64 // messages for a call that had ended
	Unknown uint64 // responses with an id that was never used
	Dropped uint64 // messages lost because they were not taken in time
	Merged  uint64 // messages replaced by a newer one with the same meaning
}

// Plus returns the sum of s and t.
func (s CallStats) Plus(t CallStats) CallStats {
	return CallStats{
		Open: s.Open + t.Open, Late: s.Late + t.Late, Unknown: s.Unknown + t.Unknown,
		Dropped: s.Dropped + t.Dropped, Merged: s.Merged + t.Merged,
	}
}

// Calls holds the calls in flight of one connection to a backend. The zero value is ready.
// All methods may be called concurrently; none of them blocks.
//
// Calls assigns the ids, per connection, so that an answer matches at most one call, and an
// answer to a call that has ended matches none.
type Calls struct {
	// Numbers generates the ids. It must be set before the first call; nil counts from 1.
	Numbers Numbers

	mu       sync.Mutex
	last     uint64
	open     map[mcp.ID]*Call
	closeErr error // why Open fails
	ended    bool  // End was called
	stats    CallStats
}

// Numbers maps the n-th call to its id. ID and Of are each other's inverse.
type Numbers interface {
	// ID returns the id of the n-th call, from 1.
	ID(n uint64) uint64

	// Of returns the number of the call with that id.
	Of(id uint64) uint64
}

// Open creates a call. If the connection has ended it returns the error passed to Close or
// End.
func (t *Calls) Open(method string) (*Call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closeErr != nil {
		return nil, t.closeErr
	}
	if t.open == nil {
		t.open = make(map[mcp.ID]*Call)
	}
	c := &Call{id: t.nextIDLocked(), serial: t.last, method: method, table: t}
	t.open[c.id] = c
	return c, nil
}

// nextIDLocked counts a call and returns its id, which no open call has.
func (t *Calls) nextIDLocked() mcp.ID {
	for {
		t.last++
		n := t.last
		if t.Numbers != nil {
			n = t.Numbers.ID(n)
		}
		if id := jsonrpc.NumberID(n); t.open[id] == nil {
			return id
		}
	}
}

// Respond ends the call of the given id with its response, on whichever stream it arrived.
// It reports whether the call was open. Responses to an ended call or to an unknown id are
// counted and dropped.
func (t *Calls) Respond(id mcp.ID, end Terminal) bool {
	if c := t.Find(id); c != nil && c.Finish(end) {
		return true
	}
	t.countStray(id)
	return false
}

func (t *Calls) countStray(id mcp.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := strconv.ParseUint(id.String(), 10, 64)
	if err == nil && t.Numbers != nil {
		n = t.Numbers.Of(n)
	}
	if err != nil || n == 0 || n > t.last {
		t.stats.Unknown++
		return
	}
	t.stats.Late++
}

// Find returns the open call of the given id, or nil.
func (t *Calls) Find(id mcp.ID) *Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// Receiver returns the request that a response with that id answers, or nil if it is
// unknown. For the zero id it returns the request of the oldest open call, which is a
// guess.
func (t *Calls) Receiver(id mcp.ID) *mcp.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.open[id] // no call has the zero id
	if id.IsZero() {
		for _, other := range t.open {
			if other.req != nil && (c == nil || other.serial < c.serial) {
				c = other
			}
		}
	}
	if c == nil {
		return nil
	}
	return c.req
}

// Only returns the open call if there is exactly one besides those of the given methods, or
// nil. A method that ends in a slash matches all that begin with it. If several calls share
// a pipe, a message without a call id belongs to the only call or to none.
func (t *Calls) Only(except ...string) *Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	var only *Call
	for _, c := range t.open {
		switch {
		case slices.ContainsFunc(except, c.isOf):
		case only != nil:
			return nil
		default:
			only = c
		}
	}
	return only
}

// isOf reports whether the call is of the method, or of one that begins with it if it ends
// in a slash.
func (c *Call) isOf(method string) bool {
	return c.method == method || strings.HasSuffix(method, "/") && strings.HasPrefix(c.method, method)
}

// Close makes Open return the error from now on. Open calls continue until they are
// answered or End is called.
func (t *Calls) Close(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closeErr == nil {
		t.closeErr = err
	}
}

// CloseIdle is Close if no call is open, and idle reports true then, at a moment at which
// no call can be opened. It reports whether it has closed, or Close or End has been called
// before. The function idle must not use the Calls.
func (t *Calls) CloseIdle(err error, idle func() bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closeErr == nil && len(t.open) == 0 && idle() {
		t.closeErr = err
	}
	return t.closeErr != nil
}

// End ends every open call with the error, and makes Open return it from now on. Only the
// first call of End has an effect.
func (t *Calls) End(err error) {
	for _, c := range t.end(err) {
		c.Finish(Terminal{Err: err})
	}
}

// end returns the open calls, oldest first, so that they end in a deterministic order.
func (t *Calls) end(err error) []*Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	t.closeErr, t.ended = err, true
	return slices.SortedFunc(maps.Values(t.open), func(a, b *Call) int { return cmp.Compare(a.serial, b.serial) })
}

// Err returns the last error passed to Close or End, or nil.
func (t *Calls) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closeErr
}

// Stats returns the counters.
func (t *Calls) Stats() CallStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Open = len(t.open)
	return s
}

// signal wakes the receiver of a channel of capacity 1. A nil channel has no receiver yet;
// it is signalled when it is created.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // already signalled
	}
}
