// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// libraryClient calls through our client package, in one of the eras or in the one that it
// finds.
type libraryClient struct {
	w     *world
	name  string
	home  *gateway
	over  *link
	tr    transport
	lib   *client.Client
	era   mcp.Era
	scope *mcp.Scope // of a legacy client
	n     int

	mu    sync.Mutex
	drops map[*record]context.CancelFunc
	ears  []*listenStream
}

// newLibraryClient returns a client that uses HTTP, or runs the gateway as its own process.
func newLibraryClient(w *world, name, token string, version mcp.Version, piped bool) *libraryClient {
	c := &libraryClient{w: w, name: name, home: w.anyGateway(), tr: w.transport(w.isForeign()), era: version.Era(), drops: make(map[*record]context.CancelFunc)}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	cfg := client.Config{Name: "g", Transport: c.tr, Version: version, Header: header}
	if c.over = c.home.front; piped {
		c.over = c.home.pipe
		c.lib = client.NewPipe(c.over.openPipe, cfg)
	} else {
		c.lib = client.NewHTTP("http://"+c.home.host+"/mcp", cfg)
	}
	if c.era == mcp.EraLegacy {
		c.scope = mcp.NewScope(name, nil)
	}
	return c
}

func (c *libraryClient) act(s *choice.Source) {
	switch s.Intn(8) {
	default:
		c.call(c.newCall(s), answerMode(s.Intn(int(answerModes))))
	case 4:
		for range 2 + s.Intn(3) {
			c.call(c.newCall(s), atOnce)
		}
	case 5, 7:
		if r := pick(s, c.w.openRecords(c.name)); r != nil {
			c.cancel(r)
		}
	case 6:
		c.listen(listenFilter{true, s.Intn(2) == 1, s.Intn(2) == 1})
	}
}

func (c *libraryClient) newCall(s *choice.Source) *record {
	c.n++
	r := &record{mark: fmt.Sprintf("%s.%d", c.name, c.n), client: c.name, era: c.era, script: scripts[s.Intn(len(scripts))]}
	r.id = fmt.Sprintf(`"token %d"`, c.n)
	return c.w.newRecord(r)
}

func (c *libraryClient) cancel(r *record) {
	c.mu.Lock()
	drop := c.drops[r]
	c.mu.Unlock()
	if drop == nil {
		return
	}
	c.w.countAction("own cancel")
	r.giveUp("it was cancelled")
	drop()
}

func (c *libraryClient) request(method, params string) *mcp.Request {
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		c.w.wrong("%s: %v", c.name, err)
		return nil
	}
	req.Client = &mcp.Peer{Info: []byte(`{"name":"own","version":"1"}`), Capabilities: []byte(`{"elicitation":{},"roots":{}}`)}
	req.LogLevel = mcp.LogDebug
	req.Scope = c.scope
	return req
}

func (c *libraryClient) call(r *record, b answerMode) {
	c.w.countAction("own call")
	r.attempt(c.home, c.over)
	ctx, cancel := context.WithCancel(c.w.ctx)
	c.mu.Lock()
	c.drops[r] = cancel
	c.mu.Unlock()
	c.w.wg.Go(func() {
		defer cancel()
		req := c.request("tools/call", fmt.Sprintf(`{%s,"_meta":{"progressToken":%s}}`, r.callParams(), r.id))
		res, err := c.lib.Serve(ctx, req, &libraryCaller{r: r, bearing: b})
		r.returned(res, err)
		c.mu.Lock()
		delete(c.drops, r)
		c.mu.Unlock()
	})
}

// returned judges the results of Serve.
func (r *record) returned(res *mcp.Result, err error) {
	var raw []byte
	switch {
	case err != nil:
		raw = jsonrpc.AppendError(nil, jsonrpc.NumberID(1), mcp.ToWire(err))
	case res != nil:
		raw = jsonrpc.AppendResult(nil, jsonrpc.NumberID(1), res.Bytes())
	default:
		r.w.wrong("%s: Serve returned nothing", r.mark)
		return
	}
	m, perr := mcp.Parse(raw, mcp.Limits{})
	if perr != nil {
		r.w.wrong("%s: Serve returned %s: %v", r.mark, short(raw), perr)
		return
	}
	r.take("Serve", &m)
	r.mayHaveBrokenOff()
	if errors.Is(err, context.Canceled) {
		r.waited()
	}
}

// waited judges a call that its caller has ended. A caller that gave up knows why there is
// no answer; one that waited until the end of the schedule has waited too long, because
// everything was repaired long before.
func (r *record) waited() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.cancelled.IsZero() {
		r.wrongLocked("got no answer, and nothing was broken any more")
	}
}

// libraryCaller is the Caller that our client delivers to.
type libraryCaller struct {
	r       *record
	bearing answerMode
}

func (c *libraryCaller) Notify(_ context.Context, n *mcp.Notification) error {
	m, err := mcp.Parse(jsonrpc.AppendNotification(nil, n.Method, n.Params.Bytes()), mcp.Limits{})
	if err != nil {
		c.r.w.wrong("%s: was told %s", c.r.mark, n.Method)
		return err
	}
	c.r.take("Notify", &m)
	return nil
}

func (c *libraryCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return c.ask(ctx, req) }, nil
}

func (*libraryCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (c *libraryCaller) ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	var q struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(req.Params.Bytes(), &q); err != nil {
		return nil, err
	}
	c.r.w.note("%s asked %s", c.r.mark, q.Message)
	c.r.checkAsked(q.Message)
	switch c.bearing {
	case never:
		c.r.excuse("it is never answered")
		<-ctx.Done()
		return nil, ctx.Err()
	case wrongly:
		return nil, &mcp.Error{Code: -1052, Message: "not today", Data: fmt.Appendf(nil, `{"mark":%q}`, c.r.mark)}
	case later:
		_ = pause(ctx, 3*time.Second)
	default: // at once; there is one way to answer, and it cannot be repeated
	}
	c.r.w.answers(q.Message)
	return mcp.NewResult([]byte(answerTo(q.Message)))
}

func (r *record) checkAsked(question string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.checkAskedLocked(question)
}

// listen listens until the end of the schedule.
func (c *libraryClient) listen(wanted listenFilter) *listenStream {
	c.w.countAction("own listen")
	ctx, cancel := context.WithCancel(c.w.ctx)
	e := &listenStream{cancel: cancel}
	c.mu.Lock()
	c.ears = append(c.ears, e)
	c.mu.Unlock()
	c.w.wg.Go(func() {
		defer cancel()
		req := c.request("subscriptions/listen", wanted.filter())
		_, err := c.lib.Serve(ctx, req, &libraryListen{c: c, e: e, wanted: wanted})
		e.open.Store(false)
		c.w.note("%s: the listen has ended: %v", c.name, err)
	})
	return e
}

type libraryListen struct {
	c      *libraryClient
	e      *listenStream
	wanted listenFilter
}

func (o *libraryListen) Notify(_ context.Context, n *mcp.Notification) error {
	o.c.w.note("%s listen < %s %s", o.c.name, n.Method, n.Params.Bytes())
	uri, _ := n.Params.Text(mcp.FieldURI)
	if n.Method == "notifications/subscriptions/acknowledged" || n.Method == "notifications/tools/list_changed" {
		o.c.list()
	}
	switch {
	case n.Method == "notifications/subscriptions/acknowledged" && !o.e.open.Load() && o.agree(n):
	case o.e.open.Load() && o.e.receive(n.Method, uri):
	case o.e.open.Load() && o.hasAskedFor(n.Method, uri):
		// A stream behind the listen may agree to more than the first one did.
	case o.c.isAmbiguous() && n.Method == "notifications/message" && o.c.isMine(n.Params.Bytes()):
	default:
		o.c.w.wrong("%s: a listen brought %s %s", o.c.name, n.Method, n.Params.Bytes())
	}
	return nil
}

// list lists the tools in the session of the listen, as the gateway does: a session is
// notified of changes of the lists that it has.
func (c *libraryClient) list() {
	if c.scope == nil {
		return
	}
	c.w.wg.Go(func() {
		for range 8 {
			res, err := c.lib.Serve(c.w.ctx, c.request("tools/list", "{}"), new(ownLister))
			c.w.note("%s: tools/list: %v", c.name, err)
			if err == nil && c.w.whole {
				c.learn(res.Bytes())
			}
			if err == nil || pause(c.w.ctx, 2*time.Second) != nil {
				return
			}
		}
	})
}

// learn records a list. A session that has the current list gets no notification: the
// product compares with what the session received last, and a notification on one of two
// streams made it list.
func (c *libraryClient) learn(list []byte) {
	now, _ := c.w.backend.look()
	if !bytes.Contains(list, fmt.Appendf(nil, `"v%d"`, now[tools])) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.ears {
		e.told[tools].Add(1)
	}
}

// ownLister is the Caller of a list request.
type ownLister struct{}

func (*ownLister) Notify(context.Context, *mcp.Notification) error { return nil }

func (*ownLister) Start(_ context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%s: not here", req.Method)
}

func (*ownLister) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (o *libraryListen) hasAskedFor(method, uri string) bool {
	t, ok := changeOf(method, uri)
	return ok && o.wanted[t]
}

func (o *libraryListen) agree(n *mcp.Notification) bool {
	agreed, err := readFilter(n.Params.Bytes())
	return err == nil && o.e.promise(o.wanted, agreed)
}

func (o *libraryListen) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return o.ask(ctx, req) }, nil
}

func (*libraryListen) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (o *libraryListen) ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	if question := questionOf(&req.Params); o.c.isAmbiguous() && o.c.isMine([]byte(question)) {
		return mcp.NewResult([]byte(answerTo(question)))
	}
	o.c.w.wrong("%s: a listen asked %s", o.c.name, req.Params.Bytes())
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "not here")
}

// settle cancels the calls that would wait forever for an answer.
func (c *libraryClient) settle() {
	c.mu.Lock()
	drops := maps.Clone(c.drops)
	c.mu.Unlock()
	for r, drop := range drops {
		if r.isExcused() {
			r.giveUp("it is never answered")
			drop()
		}
	}
}

func (c *libraryClient) heard() []streamState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return streamStates(c.ears)
}

func (r *record) isExcused() bool {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.excused != ""
}

func (c *libraryClient) probe() *record {
	s := new(choice.Source)
	s.Again(nil)
	r := c.newCall(s)
	r.script = "wp" // large, so that every way of writing is used
	c.call(r, atOnce)
	return r
}

func (c *libraryClient) watch() func() streamState {
	return c.listen(listenFilter{tools: true, one: true}).heard
}

func (c *libraryClient) close() {
	if c.scope != nil {
		c.scope.End()
	}
	if err := c.lib.Close(); err != nil {
		c.w.wrong("%s: closing: %v", c.name, err)
	}
	c.tr.CloseIdleConnections()
	if s := c.lib.Stats(); s.Serving != 0 {
		c.w.wrong("%s has ended and serves %d", c.name, s.Serving)
	}
}
