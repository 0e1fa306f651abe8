// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	tracking "github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// idleness is how the processes of a backend rest. The zero value is that they do not.
type idleness struct {
	after    time.Duration // the idle time
	sessions bool          // with sessions in which clients have made calls
}

// newIdleness chooses how the backend rests. Only one on pipes does.
func (w *world) newIdleness() idleness {
	if !w.backend.piped {
		return idleness{}
	}
	return idleness{
		after:    []time.Duration{0, time.Second, 20 * time.Second, 10 * time.Minute}[w.choose.Intn(4)],
		sessions: w.choose.Intn(2) == 1,
	}
}

// resting is a bridge that tracks its backend as the product does, and lets it rest.
type resting struct {
	bridge

	tracked *tracking.Backend
	cancel  context.CancelFunc // ends the tracking
	done    chan struct{}      // closed when it has ended

	cancelled atomic.Int64 // when a request last ended early, as Unix nanoseconds
	listens   atomic.Int64 // of clients and of the tracking, in progress
}

func newResting(g *gateway) *resting {
	r := &resting{done: make(chan struct{})}
	r.client = g.dial()
	r.tracked = tracking.New(tracking.Config{
		Name: "b", Handler: mcp.HandlerFunc(r.serveClient), Idle: -1, Max: -1,
		Rest: &tracking.Rest{
			Idle: g.w.idle.after, Processes: r.client, Busy: func() bool { return false },
			Shown: func(*mcp.Peer) tracking.Lists { return r.tracked.Offer().Lists },
		},
	})
	r.Server = server.New(r, g.cfg)
	g.w.mu.Lock()
	g.rests = r
	g.w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(g.w.ctx))
	r.cancel = cancel
	go func() { // ends with ctx; Close and Shutdown wait for it
		defer close(r.done)
		r.tracked.Run(ctx)
	}()
	return r
}

func (r *resting) Serve(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	defer context.AfterFunc(ctx, func() { r.cancelled.Store(time.Now().UnixNano()) })()
	if req.Method == "subscriptions/listen" {
		return r.tracked.Listen(ctx, req, &refresher{c, r.tracked})
	}
	return r.tracked.Serve(ctx, req, c)
}

// serveClient is the Handler of the tracking. It counts the listens, which may be those of
// the tracking itself.
func (r *resting) serveClient(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	if req.Method == "subscriptions/listen" {
		r.listens.Add(1)
		defer r.listens.Add(-1)
	}
	return r.client.Serve(ctx, req, c)
}

// refresher is the Caller of a listen. A change that a client is notified of may concern
// all.
type refresher struct {
	mcp.Caller

	of *tracking.Backend
}

func (r *refresher) Notify(ctx context.Context, n *mcp.Notification) error {
	if n.Method == "notifications/tools/list_changed" {
		r.of.Refresh()
	}
	return r.Caller.Notify(ctx, n)
}

func (r *resting) Close() error {
	r.cancel()
	err := r.bridge.Close()
	<-r.done
	return err
}

func (r *resting) Shutdown(ctx context.Context) error {
	err := r.Server.Shutdown(ctx)
	r.cancel()
	err = errors.Join(err, r.client.Shutdown(ctx))
	<-r.done
	return err
}

// title returns the title of the only tool that the gateway offers.
func (r *resting) title() string {
	items := r.tracked.Offer().Lists[catalog.Tools].Items
	if len(items) != 1 {
		return fmt.Sprintf("%d tools", len(items))
	}
	var tool struct {
		Title string `json:"title"`
	}
	if err := json.Unmarshal(items[0], &tool); err != nil {
		return err.Error()
	}
	return tool.Title
}

// resters returns the gateways with a backend at rest, and their hosts.
func (w *world) resters() map[*gateway]*resting {
	all := make(map[*gateway]*resting)
	for _, g := range w.gateways {
		if r, ok := g.core.(*resting); ok && g.site != nil {
			all[g] = r
		}
	}
	return all
}

// endIdle ends the processes of a gateway that nothing needs, whenever they were used.
func (w *world) endIdle() {
	g := w.anyGateway()
	if r := w.resters()[g]; r != nil {
		w.note("the gateway %s ends what is idle", g.host)
		w.countAction("end idle")
		r.client.Rest(time.Now())
	}
}

// checkOffers checks that each gateway with a backend at rest knows the present tools. The
// backend was just used.
func (w *world) checkOffers() {
	now, _ := w.backend.look()
	for g, r := range w.resters() {
		if got, want := r.title(), fmt.Sprintf("v%d", now[tools]); got != want {
			w.wrong("gateway %s: offers the tool of %q after a call, and the backend has that of %q", g.host, got, want)
		}
	}
}

// sessionLife is how long a server keeps the session of a client that is gone.
const sessionLife = 30 * time.Minute

// checkIdle checks that processes that nothing needs end, and that a change that none of
// them could announce is known after the next call. The clients are gone.
func (w *world) checkIdle() {
	if w.idle.after == 0 {
		return
	}
	w.note("---- nothing is needed")
	time.Sleep(2*w.idle.after + sessionLife + patience)
	synctest.Wait()
	for g := range w.resters() {
		if n := len(g.back.connections()); n > 0 {
			w.wrong("gateway %s: %d processes run, and nothing needs them", g.host, n)
		}
	}
	w.note("---- the backend changes meanwhile")
	w.backend.change(tools)
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(w.ctx)) // the one before has ended, with the clients
	defer w.cancel()
	c := newRaw(w, "last", w.tokenOf(0))
	defer c.close()
	for g := range w.resters() {
		call := func(mark string) string {
			return fmt.Sprintf(`{"name":%q,"arguments":{"mark":%q,"do":""},"_meta":{%s}}`, w.tool, mark, modernMeta)
		}
		if said, ok := c.until(g, 0, "tools/call", w.tool, call, "/done"); !ok {
			w.wrong("%s: a call to a backend that rests has no result: %s", g.host, said)
		}
	}
	time.Sleep(30 * time.Second)
	w.checkOffers()
}

// judgeRestLocked checks that a call does not fail because its backend rests: while nothing
// was broken, it has a result or its backend's own error.
func (r *record) judgeRestLocked() {
	if r.w.idle.after == 0 || r.ended != "error" || r.outcome != string(mcp.Unknown) && r.outcome != string(mcp.NotDispatched) {
		return
	}
	isHarmed := func(v attempt) bool {
		return isAnother(v) || wasShut(v) || hasCrashed(v) || lostBackend(v) || slowBackend(v) || lostClients(v)
	}
	if r.cancelled.IsZero() && r.excused == "" && r.deleted.IsZero() && r.rounds == 0 && !r.stoppable && r.w.backend.life == 1 && !r.sentTo(isHarmed) {
		r.wrongLocked("failed, and nothing was broken: %s", r.said)
	}
}

// lifeOfPipe is what a process on a pipe is doing.
type lifeOfPipe struct {
	mu      sync.Mutex
	serving map[context.Context]string
}

type lifeKey struct{}

// serves records that a process serves a request, until the returned function is called.
func serves(ctx context.Context, what string) (done func()) {
	l, ok := ctx.Value(lifeKey{}).(*lifeOfPipe)
	if !ok {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving[ctx] = what
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.serving, ctx)
	}
}

// needed returns a request that the process serves and that was not cancelled, or "".
func (l *lifeOfPipe) needed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ctx, what := range l.serving {
		if ctx.Err() == nil {
			return what
		}
	}
	return ""
}

// pipeEnd is what a process reads. It looks at what the process does when its input ends.
type pipeEnd struct {
	io.Reader

	ended func()
}

func (p *pipeEnd) Read(buf []byte) (int, error) {
	n, err := p.Reader.Read(buf)
	if errors.Is(err, io.EOF) {
		p.ended()
	}
	return n, err
}

// observed returns serve with the check that no process ends that is needed.
func (g *gateway) observed(serve func(context.Context, io.Reader, io.Writer) error) func(context.Context, io.Reader, io.Writer) error {
	return func(ctx context.Context, in io.Reader, out io.Writer) error {
		l := &lifeOfPipe{serving: make(map[context.Context]string)}
		end := &pipeEnd{in, func() { g.checkNeeded(l) }}
		return serve(context.WithValue(ctx, lifeKey{}, l), end, out)
	}
}

// checkNeeded is called when the input of a process has ended. A request that its client
// has just cancelled, possibly by its own end, needs no process: that is known a little
// later. Nor does a listen if the gateway serves none: the process may learn of the end
// of its input before it learns that the listen was cancelled.
func (g *gateway) checkNeeded(l *lifeOfPipe) {
	g.w.mu.Lock()
	r := g.rests
	g.w.mu.Unlock()
	ended := time.Now()
	if ended.Sub(g.w.start) >= sessionLife {
		return // by the end of a session that its client has abandoned
	}
	if what := l.needed(); what != "" && r != nil && (r.listens.Load() > 0 || !strings.HasPrefix(what, "subscriptions/listen ")) {
		time.AfterFunc(time.Second, func() { g.judgeEndOf(r, what, ended) })
	}
}

func (g *gateway) judgeEndOf(r *resting, what string, ended time.Time) {
	g.back.mu.Lock()
	harmed := g.back.harmed
	g.back.mu.Unlock()
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	recent := ended.Sub(time.Unix(0, r.cancelled.Load())) < 10*time.Second
	if harmed == 0 && g.late.IsZero() && !recent { // nor has the gateway crashed, which breaks its connections
		g.w.wrongLocked("gateway %s: a process was ended that served %s", g.host, what)
	}
}

// describe returns a request for a breach.
func describe(req *mcp.Request) string {
	return fmt.Sprintf("%s %s", req.Method, bytes.TrimSpace(req.Params.Bytes()))
}
