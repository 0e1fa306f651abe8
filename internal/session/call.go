// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Terminal is what ends a call: a result, or an error.
type Terminal struct {
	Result *mcp.Result
	Err    error
}

// CallStats counts what the calls of a connection met.
type CallStats struct {
	Open    int    // calls without a terminal
	Late    uint64 // messages for a call that had ended
	Unknown uint64 // responses to an id that was never given out
	Dropped uint64 // messages lost because nobody took them in time
	Merged  uint64 // messages that a newer one of the same meaning replaced
}

// Plus returns the sum of both.
func (s CallStats) Plus(t CallStats) CallStats {
	return CallStats{
		Open: s.Open + t.Open, Late: s.Late + t.Late, Unknown: s.Unknown + t.Unknown,
		Dropped: s.Dropped + t.Dropped, Merged: s.Merged + t.Merged,
	}
}

// Calls are the outbound calls of one connection to a backend: who waits for
// which answer. The zero value is ready. All methods may be called concurrently;
// none of them waits.
//
// The ids are given out here, for the connection, so that an answer can name one call
// only, and an answer to a call that is over names none.
type Calls struct {
	// Numbers gives the ids. It is set before the first call; nil counts from 1.
	Numbers Numbers

	mu    sync.Mutex
	last  uint64
	open  map[mcp.ID]*Call
	ended error // why no call can be opened any more
	over  bool  // End was called
	stats CallStats
}

// Numbers are the ids of calls in their order. ID and Of are each other's inverse.
type Numbers interface {
	// ID returns the id of the n-th call, from 1 on.
	ID(n uint64) uint64

	// Of returns which call has an id.
	Of(id uint64) uint64
}

// Open makes the cell of a new call. It returns the error that Close or End was given
// when the connection has ended.
func (t *Calls) Open(method string) (*Call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return nil, t.ended
	}
	if t.open == nil {
		t.open = make(map[mcp.ID]*Call)
	}
	c := &Call{id: t.nextLocked(), serial: t.last, method: method, table: t}
	t.open[c.id] = c
	return c, nil
}

// nextLocked counts a call, and returns its id, which no open call has.
func (t *Calls) nextLocked() mcp.ID {
	for {
		t.last++
		n := t.last
		if t.Numbers != nil {
			n = t.Numbers.ID(n)
		}
		if id := mcp.NumberID(n); t.open[id] == nil {
			return id
		}
	}
}

// Respond ends the call of the given id with its response, whatever carried it
// here. It reports whether a call was waiting for it: a second response, one to
// a call that was given up, and one to an id that is not ours are counted and
// change nothing.
func (t *Calls) Respond(id mcp.ID, end Terminal) bool {
	ended, ok := t.respond(id, end)
	tell(ended)
	return ok
}

func (t *Calls) respond(id mcp.ID, end Terminal) (ended Observer, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.open[id]
	if !ok {
		t.noteStray(id)
		return nil, false
	}
	return t.endLocked(c, end), true
}

// Find returns the open call of the given id, or nil.
func (t *Calls) Find(id mcp.ID) *Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// Receiver returns the request that a response of that id is for, where it is known. Of an
// id that is zero it returns the request of the oldest open call, which is a guess. It
// returns nil where there is none.
func (t *Calls) Receiver(id mcp.ID) *mcp.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !id.IsZero() {
		if c := t.open[id]; c != nil {
			return c.req
		}
		return nil
	}
	var oldest *Call
	for _, c := range t.open {
		if c.req != nil && (oldest == nil || c.serial < oldest.serial) {
			oldest = c
		}
	}
	if oldest == nil {
		return nil
	}
	return oldest.req
}

// Only returns the open call if there is exactly one besides those of the given
// methods, or nil. A method that ends in a slash stands for all that begin with it.
// Where several calls share a pipe, a message that names none of them belongs to the
// only one or to nobody.
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

// isOf reports whether the call is of the method, or of one that begins with it if it
// ends in a slash.
func (c *Call) isOf(method string) bool {
	return c.method == method || strings.HasSuffix(method, "/") && strings.HasPrefix(c.method, method)
}

// Close makes Open return the error from now on. The open calls go on until they have
// their answers, or End is called.
func (t *Calls) Close(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = err
	}
}

// End ends every open call with the error, and makes Open return it from now
// on. Only the first call does anything.
func (t *Calls) End(err error) {
	for _, ended := range t.endAll(err) {
		tell(ended)
	}
}

// endAll returns whom to tell.
func (t *Calls) endAll(err error) (all []Observer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil
	}
	t.ended, t.over = err, true
	for _, c := range t.inOrderLocked() {
		all = append(all, t.endLocked(c, Terminal{Err: err}))
	}
	return all
}

// Err returns what Close or End was given last, or nil.
func (t *Calls) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// Stats returns the counters.
func (t *Calls) Stats() CallStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Open = len(t.open)
	return s
}

// inOrderLocked returns the open calls, oldest first, so that the order in which they
// end does not depend on the map.
func (t *Calls) inOrderLocked() []*Call {
	calls := make([]*Call, 0, len(t.open))
	for _, c := range t.open {
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b *Call) int { return cmp.Compare(a.serial, b.serial) })
	return calls
}

// endLocked is the one place where a call ends. The terminal stands behind the
// messages that are still to be taken. What it returns is to be told, if it is not nil.
func (t *Calls) endLocked(c *Call, end Terminal) (ended Observer) {
	delete(t.open, c.id)
	c.end, c.over = end, true
	if c.done != nil {
		close(c.done)
	}
	signal(c.wake)
	signal(c.room)
	return c.absent
}

// tell says to whoever is away that the call has ended. It is called without the lock.
func tell(who Observer) {
	if who != nil {
		who.OnEnd()
	}
}

// noteStray counts a response that nobody waits for.
func (t *Calls) noteStray(id mcp.ID) {
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

// signal wakes whoever waits on a channel of capacity 1, or will. Where there is no
// channel, nobody has asked for it yet, and finds out when he does.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // a wake-up is under way already
	}
}
