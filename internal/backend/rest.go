// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Rest is how a server that is a process rests.
//
// A process for lists ends when it has been open for Idle, or earlier if a process of a
// client notifies of changes as well. A process that also serves calls ends when it has
// served none for Idle. The lists stay offered. When a call has started a process, they
// are compared with those that it lists.
type Rest struct {
	// Idle is not zero. If it is negative, a server rests only if it was stopped.
	Idle time.Duration

	// Processes are those of the server.
	Processes Processes

	// Busy reports whether the server works on what no request waits for, such as tasks.
	// It must not block.
	Busy func() bool

	// Shown returns the lists that clients with the capabilities of this one get.
	Shown func(*mcp.Peer) Lists
}

// Processes are the processes of a server. A client.Client has these methods, and
// documents them.
type Processes interface {
	Rest(since time.Time)
	KeepsState() bool
	InSession() bool
	SharesProcess() bool
}

const (
	// maxKeptAge is the age from which lists of an earlier run are fetched again although
	// no client uses the server.
	maxKeptAge = 24 * time.Hour

	// calmTime is how long the lists of a server must not have changed before a process
	// that was started for them ends, if that is shorter than Rest.Idle: each change would
	// start another one.
	calmTime = time.Minute

	// minUseTick is the shortest time between two looks at the use of a server.
	minUseTick = 20 * time.Millisecond

	// useTicks is how many looks there are in Rest.Idle. It bounds by how much a process
	// may outlive that.
	useTicks = 8
)

// errIdleServer is returned by followUntilIdle when the server may rest.
var errIdleServer = errors.New("the server serves no client")

// use records the use of a server by clients. The methods of a nil use do nothing.
type use struct {
	*Rest

	calls atomic.Int64 // requests of clients in progress
	last  atomic.Int64 // when the last one ended, as Unix nanoseconds

	follow  atomic.Pointer[context.CancelCauseFunc] // ends followUntilIdle; nil while it does not run
	lists   atomic.Int64                            // when the current follow has fetched the lists; 0 before
	hold    atomic.Bool                             // the process that was started for the lists stays for Idle
	changed atomic.Int64                            // when a change of the lists was last noted

	nudge chan struct{} // capacity 1: look at the use now
	check chan struct{} // capacity 1: to rest, when processes may have ended
	woken chan Client   // capacity 1: to rest, by a client whose request may have started a process
}

func newUse(r *Rest) *use {
	return &use{Rest: r, nudge: make(chan struct{}, 1), check: make(chan struct{}, 1), woken: make(chan Client, 1)}
}

// beginUse counts a request of a client, and returns it for endUse. It returns nil for
// a message for which no process is started.
func (b *Backend) beginUse(req *mcp.Request) *mcp.Request {
	if b.use == nil || req.Method == "logging/setLevel" || strings.HasPrefix(req.Method, "notifications/") {
		return nil
	}
	b.use.calls.Add(1)
	return req
}

func (b *Backend) endUse(req *mcp.Request) {
	if req == nil {
		return
	}
	u := b.use
	u.last.Store(time.Now().UnixNano())
	u.calls.Add(-1)
	b.wakeBy(req)
	if u.lists.Load() != 0 && u.isCarried(time.Now()) {
		signal(u.nudge)
	}
}

// wakeBy makes a server that rests be tracked again, because a request may have started
// it.
func (b *Backend) wakeBy(req *mcp.Request) {
	if b.use == nil || !b.Offer().State.IsResting() {
		return
	}
	select {
	case b.use.woken <- Client{Peer: req.Client, Principal: req.Principal, Scope: req.Scope}:
	default: // one is enough
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // already signalled
	}
}

// noteLists records that the current follow has fetched the lists.
func (u *use) noteLists() {
	if u == nil {
		return
	}
	u.lists.Store(time.Now().UnixNano())
	signal(u.nudge)
}

// noteChange records a change of the lists.
func (u *use) noteChange() {
	if u != nil {
		u.changed.Store(time.Now().UnixNano())
	}
}

// followUntilIdle is follow until the server may rest.
func (b *Backend) followUntilIdle(ctx context.Context, sole *Client) error {
	if b.use == nil {
		return b.follow(ctx, sole)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.use.follow.Store(&cancel)
	defer b.use.lists.Store(0)
	defer b.use.follow.Store(nil)
	err := b.follow(ctx, sole)
	if errors.Is(context.Cause(ctx), errIdleServer) {
		return errIdleServer
	}
	return err
}

// watchUse ends follow when the server may rest, and processes that serve no client.
// The returned function waits for its end; ctx must have ended.
func (b *Backend) watchUse(ctx context.Context, sole bool) (wait func()) {
	if b.use.Idle < 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	// Ends with ctx; Run waits for it.
	go func() {
		defer close(done)
		u := b.use
		ticker := time.NewTicker(max(u.Idle/useTicks, minUseTick))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				if !u.Busy() {
					u.Processes.Rest(now.Add(-u.Idle))
				}
			case <-u.nudge:
			}
			if b.mayRest(time.Now(), sole) {
				if end := u.follow.Load(); end != nil {
					(*end)(errIdleServer)
				}
			}
			signal(u.check)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// mayRest reports whether follow may end: the lists are known, and the process for them
// need not be open.
func (b *Backend) mayRest(now time.Time, sole bool) bool {
	u := b.use
	since := u.lists.Load()
	if since == 0 || b.Offer().late != 0 {
		return false
	}
	if !u.hold.Load() {
		since = 0
	}
	if !sole && !u.Processes.SharesProcess() {
		return u.isCalm(now) && (now.Sub(time.Unix(0, since)) >= u.Idle || u.Processes.InSession())
	}
	if u.calls.Load() > 0 {
		return false
	}
	since = max(since, u.last.Load()) // after calls: a call that has ended is in it
	return now.Sub(time.Unix(0, since)) >= u.Idle && !u.Busy() && !u.Processes.KeepsState()
}

// isCarried reports whether a process of a client notifies of changes, so that none is
// needed for the lists alone.
func (u *use) isCarried(now time.Time) bool {
	return u.isCalm(now) && !u.Processes.SharesProcess() && u.Processes.InSession()
}

func (u *use) isCalm(now time.Time) bool {
	return now.Sub(time.Unix(0, u.changed.Load())) >= min(calmTime, u.Idle)
}

// rest returns when the server must be tracked. If its lists are not known, or are those
// of an earlier run and old, that is at once.
func (b *Backend) rest(ctx context.Context, sole *Client) {
	u := b.use
	o := b.Offer()
	switch {
	case !o.State.IsResting() && o.State != Live, o.State == Kept && u.Idle < 0:
		u.hold.Store(true)
		return
	case o.State == Kept && time.Since(o.At) >= maxKeptAge:
		u.hold.Store(false) // no client needs the lists: the process ends as soon as they are known
		return
	}
	since := time.Now()
	if u.hold.Swap(true) || since.Sub(time.Unix(0, u.last.Load())) < u.Idle {
		since = since.Add(-u.Idle)
	}
	wanted := len(b.refresh) > 0
	if u.Idle > 0 && !u.Busy() {
		u.Processes.Rest(since)
	}
	if !wanted {
		// By the ends of sessions, whose lists are gone with them.
		select {
		case <-b.refresh:
		default:
		}
	}
	for {
		b.publishIdle()
		select {
		case <-ctx.Done():
			return
		case <-b.refresh:
			return
		case c := <-u.woken:
			if sole != nil || u.Idle < 0 || u.Processes.SharesProcess() {
				return
			}
			if !b.confirmLists(ctx, c) {
				u.hold.Store(false)
				return
			}
		case <-u.check:
		}
	}
}

// publishIdle publishes that the server is idle, if no process of it is left.
func (b *Backend) publishIdle() {
	if o := b.Offer(); o.State == Live && !b.use.Processes.InSession() {
		next := *o
		next.State = Idle
		b.publish(&next)
	}
}

// confirmLists compares the lists with those that the process of a client returns. It
// reports false if they differ, or the process has ended.
func (b *Backend) confirmLists(ctx context.Context, c Client) bool {
	o := b.Offer()
	for k := range o.Lists {
		if o.Lists[k].Failed {
			return false
		}
	}
	now, err := b.offerFor(ctx, c)
	if err != nil || !now.isSameServer(o) {
		return false
	}
	if shown := b.use.Shown(c.Peer); !now.Lists.Equal(&shown) || !b.Offer().State.IsResting() {
		return false
	}
	next := *o
	next.State, next.Reason, next.Code, next.At = Live, "", "", time.Now()
	b.publish(&next)
	return true
}

// isSameServer reports whether a server describes itself as in the other offer.
func (o *Offer) isSameServer(other *Offer) bool {
	return o.offered == other.offered && o.Instructions == other.Instructions &&
		bytes.Equal(o.Server.Capabilities, other.Server.Capabilities) && bytes.Equal(o.Server.Info, other.Server.Info)
}
