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
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Client presents one MCP server as an [mcp.Handler]. Its methods may be called
// concurrently, and from within the callers that it serves. It opens nothing before the
// first request.
type Client struct {
	setup      *call.Setup
	link       link
	pipes      *pipeLink // link, if it opens pipes
	group      call.Goroutines
	discovered atomic.Pointer[Server] // by the protocol in use; nil if not known

	// mu guards the requests in progress together with the protocols, because a
	// shutdown needs both: whether a request has begun, and which protocol to wait for.
	mu        sync.Mutex
	cur       *activeProtocol              // the protocol in use; nil if the era is not known
	known     map[*activeProtocol]struct{} // the protocols that are not closed
	detecting *detection                   // the probe in progress, or nil

	rechecking bool // a probe checks a protocol that fails
	draining   bool
	idle       chan struct{} // closed when draining and no request is in progress
	serving    int
	resending  int // requests that wait to be sent again

	requests atomic.Uint64
	retries  atomic.Uint64
	input    awaitedInput // of a server on pipes
	used     atomic.Int64 // when a process was found, or the last request of a client to one ended, as Unix nanoseconds

	closer    call.CloseOnce
	hurryOnce sync.Once
}

// link connects to a server before its era is known.
type link interface {
	// detect determines the era and returns a protocol of that era. It asks the server on
	// behalf of the sender of a request, or of the gateway if that is nil.
	detect(ctx context.Context, of *mcp.Request) (protocol, error)
	// stop closes what the link has opened, and returns when it is closed.
	stop()
}

// protocol implements one era over one transport.
type protocol interface {
	Era() mcp.Era
	// Serve sends a request. It sends the request again only if the era requires that.
	// The error may be a rejection, about which the Client decides.
	Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error)
	// Listen serves subscriptions/listen until the stream of changes breaks.
	Listen(ctx context.Context, req *mcp.Request, sink mcp.Caller) error
	Stats() session.CallStats
	Close(ctx context.Context)
}

func newClient(s *call.Setup, l link) *Client {
	c := &Client{setup: s, link: l}
	c.pipes, _ = l.(*pipeLink)
	s.AwaitRetry = func(ctx context.Context, n int) bool { return c.awaitRetry(ctx, call.ResendDelay(n)) }
	s.Recheck = c.recheck
	return c
}

// Serve sends the request to the server in the server's era and returns the terminal.
// Errors of the server are returned unmodified as *mcp.Error. Failures determined here
// are *mcp.Fault, with the outcome. A request that may have run is sent again only if
// that does no harm. Without a caller (nil), messages of the server are dropped, and its
// requests are refused.
func (c *Client) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error) {
	if caller == nil {
		caller = call.NoCaller{}
	}
	if !c.enter() {
		return nil, c.setup.Closed()
	}
	defer c.leave(req)
	c.requests.Add(1)
	switch {
	case c.setup.BadInfo != nil: // it would be inserted into messages unmodified
		return nil, c.setup.Unavailable(c.setup.BadInfo, "Config.Info is not usable: %v", c.setup.BadInfo)
	case req.Method == call.MethodListen:
		return nil, c.listen(ctx, req, caller)
	case !c.isEarly(req.Method):
		if c.pipes != nil {
			defer func() { c.input.note(req, res, err) }() // before leave, so that Rest sees one of them
		}
		return c.serve(ctx, req, caller)
	}
	// Notifications about a session that is not open yet are covered by its handshake.
	// They need no probe of the server.
	if req.Method == call.MethodSetLevel {
		return call.EmptyResult()
	}
	return nil, nil //nolint:nilnil // a notification has no terminal
}

// isEarly reports whether a message concerns open sessions while no session is open.
func (c *Client) isEarly(method string) bool {
	ap, _ := c.current()
	return ap == nil && (method == call.MethodSetLevel || strings.HasPrefix(method, "notifications/"))
}

// enter and leave count the requests in progress for Shutdown. Once Shutdown has begun,
// enter reports false.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return false
	}
	c.serving++
	return true
}

func (c *Client) leave(req *mcp.Request) {
	if c.pipes != nil && !call.IsInternal(req) {
		c.used.Store(time.Now().UnixNano())
	}
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

// Shutdown rejects new requests, waits until those in progress have ended or ctx ends,
// and closes the client. It returns ctx's error if requests were interrupted. When ctx
// ends, processes are asked to terminate at once and killed shortly after.
func (c *Client) Shutdown(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.hurry)()
	var err error
	select {
	case <-c.drain():
	case <-ctx.Done():
		// Both may be ready. Then nothing was interrupted.
		if !call.IsClosed(c.drain()) {
			err = ctx.Err()
		}
	}
	if cerr := c.Close(); err == nil {
		err = cerr
	}
	return err
}

func (c *Client) hurry() { c.hurryOnce.Do(func() { close(c.setup.Hurried) }) }

// drain rejects new requests. It returns a channel that is closed when none is in
// progress.
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

// Close cancels what is in progress, ends the sessions and stops the processes. It
// returns when nothing of the client is left. It may be called more than once, and by a
// Caller from Notify or Ask. It does not wait for Callers: it cancels their contexts.
func (c *Client) Close() error {
	// A probe may be running, and may return a protocol while the previous one is being
	// closed. So cancel it, wait for it, and close again.
	c.closer.Once(func() {
		c.drain()
		c.group.Cancel()
		c.endAll()
		c.group.Close()
		c.endAll() // returned by a probe that was running
		c.link.stop()
	})
	return nil
}

// endAll closes all known protocols, including wrong ones that still serve requests.
//
//nolint:contextcheck,nolintlint // contextcheck reports here for all callers: no context is left during the close
func (c *Client) endAll() {
	var all sync.WaitGroup
	for _, ap := range c.takeAll() {
		all.Go(func() { ap.end(context.Background()) }) // waited for below, bounded by the protocol's close
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

// Stats are the counters of a Client. Those of messages concern the current protocol,
// and start at zero with each probe.
type Stats struct {
	Era      mcp.Era
	Serving  int    // requests in progress
	Requests uint64 // requests so far
	Retries  uint64 // requests that were sent again
	Starts   uint64 // processes that were started

	Late    uint64 // messages of the server for a call that had ended
	Unknown uint64 // responses of the server to no known request
	Dropped uint64 // messages of the server that were not received in time
	Merged  uint64 // messages of the server that a newer one replaced
}

// OtherOutput describes the first line of a process's standard output that is not a
// message, for people. It concerns the process started last. It is empty if there is no
// such line.
func (c *Client) OtherOutput() string { return c.setup.OtherOutputText() }

// Stats returns the counters.
func (c *Client) Stats() Stats {
	s := Stats{Requests: c.requests.Load(), Retries: c.retries.Load(), Starts: c.setup.Starts.Load()}
	ap, serving := c.current()
	s.Serving = serving
	if ap != nil {
		s.Era = ap.Era()
		calls := ap.Stats()
		s.Late, s.Unknown, s.Dropped, s.Merged = calls.Late, calls.Unknown, calls.Dropped, calls.Merged
	}
	return s
}

func (c *Client) current() (*activeProtocol, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cur, c.serving
}
