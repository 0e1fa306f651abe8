// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Client is one MCP server as an [mcp.Handler]. Its methods may be called
// concurrently, and from within the callers that it serves. Nothing is opened
// before the first request.
type Client struct {
	*setup
	link      link
	group     goroutines
	budget    budget
	discovery discoverCache

	// One lock for who is served and by what, because a shutdown asks both: whether
	// a request has begun, and which protocol it would have to wait for.
	mu        sync.Mutex
	cur       *activeProtocol              // the protocol in use, nil where the era is not known
	known     map[*activeProtocol]struct{} // those that are not closed yet
	detecting *detection                   // the probe under way, or nil

	rechecking bool // a protocol that fails is being looked behind
	draining   bool
	idle       chan struct{} // closed when draining and nothing is served
	serving    int

	requests atomic.Uint64
	retries  atomic.Uint64

	closer    closeOnce
	hurryOnce sync.Once
}

// link reaches a server, before it is known what it speaks.
type link interface {
	// detect finds out the era and returns what speaks it.
	detect(ctx context.Context) (protocol, error)
	// stop returns when nothing of the link is left.
	stop()
}

// protocol speaks one era over one transport.
type protocol interface {
	era() mcp.Era
	// serve sends a request once, and again only where the era itself says so. Its
	// error may be a rejection: whoever knows all protocols decides what follows.
	serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error)
	// listen serves subscriptions/listen until the stream of changes breaks.
	listen(ctx context.Context, req *mcp.Request, sink mcp.Caller) error
	stats() session.CallStats
	close(ctx context.Context)
}

// activeProtocol is a protocol in use. One that was found wrong is closed when the
// last request that it serves has ended: that may still be answered.
type activeProtocol struct {
	protocol

	ending closeOnce

	// Below: guarded by Client.mu.
	users   int
	retired bool
}

// NewHTTP returns a client of the server at the URL, over Streamable HTTP.
func NewHTTP(url string, cfg Config) *Client {
	s := newSetup(cfg)
	return newClient(s, &httpLink{endpoint: newEndpoint(s, url)})
}

func newClient(s *setup, l link) *Client {
	c := &Client{setup: s, link: l}
	s.awaitRetry, s.recheck = c.awaitRetry, c.recheck
	return c
}

// Serve sends the request to the server, in the server's own era, and returns its
// terminal. Errors of the server are *mcp.Error as they came; what we concluded
// ourselves is a *mcp.Fault with the outcome. A request that may have been
// executed is sent again only where that does no harm.
func (c *Client) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if !c.enter() {
		return nil, c.closed()
	}
	defer c.leave()
	c.requests.Add(1)
	switch {
	case c.badInfo != nil: // it would stand in a message as it is
		return nil, c.unavailable(c.badInfo, "Config.Info is not usable: %v", c.badInfo)
	case req.Method == methodListen:
		return nil, c.listen(ctx, req, caller)
	case !c.isEarly(req.Method):
		return c.serve(ctx, req, caller)
	}
	// What is said of a session before there is one, the handshake will say.
	// Nobody has to find out for it what the server speaks.
	if req.Method == methodSetLevel {
		return emptyResult()
	}
	return nil, nil //nolint:nilnil // a notification has no terminal
}

// isEarly reports whether a message concerns open sessions, and there is none.
func (c *Client) isEarly(method string) bool {
	sp, _ := c.current()
	return sp == nil && (method == methodSetLevel || strings.HasPrefix(method, "notifications/"))
}

// enter and leave count who is served, so that Shutdown knows when nobody is. Who
// comes after it has begun is refused, and is not counted.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return false
	}
	c.serving++
	return true
}

func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving--
	c.noteIdleLocked()
}

func (c *Client) noteIdleLocked() {
	if !c.draining || c.serving > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// protocol returns what speaks to the server, after finding out if need be. The
// caller gives it back with done. The limits of asker stop meanwhile: the probe has its own.
func (c *Client) protocol(ctx context.Context, asker mcp.Caller) (*activeProtocol, error) {
	for {
		sp, det, err := c.acquire()
		if sp != nil || err != nil {
			return sp, err
		}
		if err := c.awaitDetection(ctx, asker, det); err != nil {
			return nil, err
		}
	}
}

func (c *Client) awaitDetection(ctx context.Context, asker mcp.Caller, det *detection) error {
	mcp.Pause(asker, true)
	defer mcp.Pause(asker, false)
	select {
	case <-det.done:
		return det.err
	case <-ctx.Done():
		return c.givenUp(ctx, mcp.NotDispatched)
	}
}

// look returns the protocol in use, or the probe to wait for, begun if need be.
func (c *Client) acquire() (*activeProtocol, *detection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur != nil {
		c.cur.users++
		return c.cur, nil, nil
	}
	if c.detecting != nil {
		return nil, c.detecting, nil
	}
	det := &detection{done: make(chan struct{})}
	// Waited for by Close; bounded by the link's own limits.
	if _, ok := c.group.start(func(ctx context.Context) { c.detect(ctx, det) }); !ok {
		return nil, nil, c.closed()
	}
	c.detecting = det
	return nil, det, nil
}

// detection is one probe that several requests may wait for.
type detection struct {
	done chan struct{}
	err  error // set before done is closed
}

func (c *Client) detect(ctx context.Context, det *detection) {
	p, err := c.link.detect(ctx)
	c.settle(det, p, err)
}

// settle wakes who waits after the protocol is there to be found. A failed probe
// leaves nothing, so that the next request probes again.
func (c *Client) settle(det *detection, p protocol, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(det.done)
	c.detecting = nil
	det.err = err
	if err == nil {
		c.useLocked(p)
	}
}

// useLocked has a protocol used from now on.
func (c *Client) useLocked(p protocol) {
	c.cur = &activeProtocol{protocol: p}
	if c.known == nil {
		c.known = make(map[*activeProtocol]struct{})
	}
	c.known[c.cur] = struct{}{}
}

// done gives a protocol back. One that was found wrong is used for no further
// request.
func (c *Client) release(sp *activeProtocol, wrong bool) {
	if c.decRef(sp, wrong) {
		c.dispose(sp)
	}
}

// release reports whether the protocol is to be closed now. It is retired by whoever
// finds it wrong first; another one may be in use by then, and is left alone.
func (c *Client) decRef(sp *activeProtocol, wrong bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	sp.users--
	if wrong {
		sp.retired = true
		if c.cur == sp {
			c.cur = nil
		}
	}
	return sp.retired && sp.users == 0
}

// dispose closes a protocol in the background; Close waits for it, or does it. What
// the server has said of itself is forgotten with it: the next one may be another
// program.
func (c *Client) dispose(sp *activeProtocol) {
	c.discovery.forget()
	c.group.start(func(ctx context.Context) { // bounded by the protocol's close
		sp.end(ctx)
		c.forget(sp)
	})
}

func (c *Client) forget(sp *activeProtocol) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, sp)
}

// Shutdown takes no new requests, waits until those under way have ended or ctx
// has, and closes the client. It returns ctx's error if requests were cut. Once ctx has
// ended a process is asked to end at once, and killed a moment later.
func (c *Client) Shutdown(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.hurry)()
	var err error
	select {
	case <-c.drain():
	case <-ctx.Done():
		// Both may be so, and then nothing was cut.
		if !isClosed(c.drain()) {
			err = ctx.Err()
		}
	}
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	return err
}

func (c *Client) hurry() { c.hurryOnce.Do(func() { close(c.hurried) }) }

// drain refuses new requests. The channel is closed when none is served.
func (c *Client) drain() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	c.noteIdleLocked()
	return c.idle
}

// Close ends what is under way and lets the server go: sessions are ended,
// processes stopped. It returns when nothing of the client is left, and may be
// called more than once, and by a Caller while it is told or asked something. It
// does not wait for Callers: their contexts end.
func (c *Client) Close() error {
	// A probe may be under way, and may find a protocol while the one before it is
	// being closed. So the tasks are cancelled, waited for, and looked behind.
	c.closer.once(func() {
		c.drain()
		c.group.cancel()
		c.endAll()
		c.group.close()
		c.endAll() // found by a probe that was under way
		c.link.stop()
	})
	return nil
}

// endAll closes what is known, also what was found wrong and still serves requests.
//
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: there is no more context to do it in
func (c *Client) endAll() {
	var all sync.WaitGroup
	for _, sp := range c.takeAll() {
		all.Go(func() { sp.end(context.Background()) }) // waited for here, bounded by the protocol's close
	}
	all.Wait()
}

func (c *Client) takeAll() []*activeProtocol {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Collect(maps.Keys(c.known))
	c.cur, c.known = nil, nil
	return all
}

// end closes the protocol, whoever comes first.
func (sp *activeProtocol) end(ctx context.Context) { sp.ending.once(func() { sp.close(ctx) }) }

// Stats is what a client has done, and does. What counts messages is about the
// era that is spoken now, and begins anew with each probe.
type Stats struct {
	Era      mcp.Era
	Serving  int    // requests under way
	Requests uint64 // requests so far
	Retries  uint64 // requests that were sent again

	Late    uint64 // messages of the server for a call that had ended
	Unknown uint64 // responses of the server to what was never asked
	Dropped uint64 // messages of the server that nobody took in time
	Merged  uint64 // messages of the server that a newer one replaced
}

// OtherOutput says which line of a process's output is no message, for people. It is of the
// process that was started last, and empty where there is none.
func (c *Client) OtherOutput() string { return c.otherOutputText() }

// Stats returns the counters.
func (c *Client) Stats() Stats {
	s := Stats{Requests: c.requests.Load(), Retries: c.retries.Load()}
	sp, serving := c.current()
	s.Serving = serving
	if sp != nil {
		s.Era = sp.era()
		calls := sp.stats()
		s.Late, s.Unknown, s.Dropped, s.Merged = calls.Late, calls.Unknown, calls.Dropped, calls.Merged
	}
	return s
}

func (c *Client) current() (*activeProtocol, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cur, c.serving
}
