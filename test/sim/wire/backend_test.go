// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// backend is the server behind the gateway, over all its restarts.
type backend struct {
	w      *world
	legacy bool // does not support the modern era
	piped  bool // a process on a pipe of lines, one for each opener
	cfg    server.Config
	buffer int

	unannounced bool // over HTTP its responses have no Content-Length

	streams      *streams // of its sessions
	how          *manner  // how it refuses the modern era, if it is a legacy backend
	isRolledBack bool

	site *process // nil while it is down
	life int

	mu      sync.Mutex
	version [topics]int
	changed chan struct{} // closed with the next version of any topic
}

// topic is something of a backend that may change: its tools, and two resources.
type topic int

const (
	tools topic = iota
	one
	two
	topics // the number of topics
)

func (t topic) String() string {
	return [...]string{"the list of tools", "resource one", "resource two"}[t]
}

func (t topic) uri() string { return fmt.Sprintf("mem:%d", int(t)) }

// topicOf returns the topic of the URI, or tools.
func topicOf(uri string) topic {
	for t := one; t < topics; t++ {
		if t.uri() == uri {
			return t
		}
	}
	return tools
}

// listenFilter is the set of topics that a listen requests or that is agreed to.
type listenFilter [topics]bool

// filter returns the protocol's form of the filter.
func (w listenFilter) filter() string {
	var uris []string
	for t := one; t < topics; t++ {
		if w[t] {
			uris = append(uris, strconv.Quote(t.uri()))
		}
	}
	return fmt.Sprintf(`{"notifications":{"toolsListChanged":%v,"resourceSubscriptions":[%s]}}`, w[tools], strings.Join(uris, ","))
}

// readFilter reads a filter that filter has written.
func readFilter(params []byte) (w listenFilter, err error) {
	var p struct {
		Of struct {
			Tools bool     `json:"toolsListChanged"`
			URIs  []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	err = json.Unmarshal(params, &p)
	for _, uri := range p.Of.URIs {
		w[topicOf(uri)] = true
	}
	w[tools] = p.Of.Tools
	return w, err
}

func (b *backend) start() {
	b.life++
	s := server.New(b.handler(b.life, b.legacy), b.cfg)
	b.site = open(b.guard(s, b.legacy), s.Close)
	for _, g := range b.w.gateways {
		if b.piped {
			b.site.servePipes(g.back, b.buffer, g.observed(s.ServeStdio))
		} else {
			b.site.serveHTTP(g.back, b.buffer)
		}
	}
}

func (b *backend) crash() {
	if b.site == nil {
		return
	}
	b.site.kill()
	b.site = nil
}

// guard is in front of an HTTP backend: a server of the legacy era refuses requests that it
// does not support.
func (b *backend) guard(h http.Handler, legacy bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if legacy && mcp.Version(r.Header.Get("Mcp-Protocol-Version")).Era() == mcp.EraModern {
			b.how.refuse(w, r)
			return
		}
		if b.unannounced {
			w = unannounced{w}
		}
		if r.Header.Get("Mcp-Session-Id") == "" {
			h.ServeHTTP(w, r)
			return
		}
		b.streams.serve(w, r, h)
	})
}

// unannounced is a response without a Content-Length.
type unannounced struct{ http.ResponseWriter }

func (u unannounced) WriteHeader(status int) {
	u.Header().Del("Content-Length")
	u.ResponseWriter.WriteHeader(status)
}

// Unwrap lets net/http find the deadlines.
func (u unannounced) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// change changes topics, and makes the backend notify its listeners.
func (b *backend) change(which ...topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range which {
		b.version[t]++
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *backend) look() ([topics]int, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version, b.changed
}

func (b *backend) handler(life int, legacy bool) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			if legacy && req.Client.Version.Era() == mcp.EraModern {
				return nil, mcp.Errorf(mcp.CodeMethodNotFound, "unknown method %q", req.Method) // on a pipe there is no guard
			}
			return mcp.NewResult([]byte(`{"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"supportedVersions":["2026-07-28"]}`))
		case "tools/list":
			v, _ := b.look()
			return mcp.NewResult(fmt.Appendf(nil, `{"tools":[{"name":"work","title":"v%d","description":"life %d","inputSchema":{"type":"object"}}]}`, v[tools], life))
		case "resources/list":
			return mcp.NewResult(fmt.Appendf(nil, `{"resources":[{"uri":%q,"name":"one"},{"uri":%q,"name":"two"}]}`, one.uri(), two.uri()))
		case "resources/templates/list":
			return mcp.NewResult([]byte(`{"resourceTemplates":[]}`))
		case "tools/call":
			defer serves(ctx, describe(req))()
			return b.work(ctx, req, c, life)
		case "subscriptions/listen":
			if req.Params.Has(mcp.FieldNotifications) && bytes.Contains(req.Params.Bytes(), []byte(`"resourceSubscriptions":["`)) {
				defer serves(ctx, describe(req))()
			}
			return b.serveListen(ctx, req, c)
		case "logging/setLevel":
			return mcp.NewResult([]byte(`{}`))
		default:
			if strings.HasPrefix(req.Method, "notifications/") {
				return nil, nil //nolint:nilnil // a notification has no terminal
			}
			return nil, mcp.Errorf(mcp.CodeMethodNotFound, "unknown method %q", req.Method)
		}
	})
}

// serveListen serves a listen: a level, sent whenever it differs from the last one sent.
func (b *backend) serveListen(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	wanted, err := readFilter(req.Params.Bytes())
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	told, changed := b.look()
	if err := notify(ctx, c, "notifications/subscriptions/acknowledged", wanted.filter()); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return mcp.NewResult([]byte(`{}`))
		case <-changed:
		}
		now, next := b.look()
		for t := range topics {
			if now[t] == told[t] || !wanted[t] {
				continue
			}
			if err := tellOf(ctx, c, t); err != nil {
				return nil, err
			}
		}
		told, changed = now, next
	}
}

func tellOf(ctx context.Context, c mcp.Caller, t topic) error {
	if t == tools {
		return notify(ctx, c, "notifications/tools/list_changed", "")
	}
	return notify(ctx, c, "notifications/resources/updated", fmt.Sprintf(`{"uri":%q}`, t.uri()))
}

func notify(ctx context.Context, c mcp.Caller, method, params string) error {
	n, err := mcp.NewNotification(method, []byte(params))
	if err != nil {
		return err
	}
	return c.Notify(ctx, n)
}

// work executes a script, one letter at a time.
func (b *backend) work(ctx context.Context, req *mcp.Request, c mcp.Caller, life int) (*mcp.Result, error) {
	var args struct {
		Name      string `json:"name"`
		Arguments struct {
			Mark string `json:"mark"`
			Do   string `json:"do"`
			Wide string `json:"wide"`
		} `json:"arguments"`
		Responses json.RawMessage `json:"inputResponses"`
		State     string          `json:"requestState"`
	}
	if err := json.Unmarshal(req.Params.Bytes(), &args); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	if args.Name != "work" {
		b.w.wrong("%s: the backend was called by the name %q", args.Arguments.Mark, args.Name)
	}
	if got, want := args.Arguments.Wide, wide(args.Arguments.Do); got != want {
		b.w.wrong("%s: %d bytes of a large request arrived, want %d", args.Arguments.Mark, len(got), len(want))
	}
	j := b.w.begin(args.Arguments.Mark, args.Responses != nil, life)
	run := &run{
		w: b.w, job: j, req: req, caller: c, mark: args.Arguments.Mark,
		input: args.Responses, state: args.State,
	}
	res, err := run.script(ctx, args.Arguments.Do)
	b.w.end(j, context.Cause(ctx))
	return res, err
}

// run is one execution of a script.
type run struct {
	w      *world
	job    *job
	req    *mcp.Request
	caller mcp.Caller
	mark   string
	input  json.RawMessage
	state  string

	progress, logs, asks int
}

// script runs a script: p is progress, l a log message, a an ask, i an input request of the
// modern era, q closes the connection of a client that reconnects, 1 to 5 are pauses, h is
// a pause that only the end of the request ends, e an error. The result follows at the end.
// It is large if b is in the script; the request is large if w is.
func (r *run) script(ctx context.Context, do string) (*mcp.Result, error) {
	all := do
	// Steps of an earlier round are not repeated, and their numbers continue.
	if done, rest, found := strings.Cut(do, "i"); found && r.input != nil {
		r.progress, r.logs = strings.Count(done, "p"), strings.Count(done, "l")
		r.asks, do = strings.Count(done, "a"), "i"+rest
	}
	for _, op := range do {
		var err error
		switch op {
		case 'p':
			err = r.tellProgress(ctx)
		case 'l':
			r.logs++
			err = notify(ctx, r.caller, "notifications/message", fmt.Sprintf(`{"level":"error","data":"%s/l%d"}`, r.mark, r.logs))
		case 'a':
			err = r.ask(ctx)
		case 'i':
			if res, err := r.require(); res != nil || err != nil {
				return res, err
			}
		case '1', '2', '3', '4', '5':
			err = pause(ctx, tenfold(op))
		case 'h':
			err = pause(ctx, 90*time.Second)
		case 'q':
			r.caller.Extension().Poll(300 * time.Millisecond)
		case 'e':
			return nil, &mcp.Error{Code: -1050, Message: "as it was told", Data: fmt.Appendf(nil, `{"mark":%q}`, r.mark)}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, &mcp.Error{Code: -1051, Message: "on the way: " + err.Error(), Data: fmt.Appendf(nil, `{"mark":%q}`, r.mark)}
		}
	}
	return mcp.NewResult(fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, done(r.mark, all)))
}

// wide returns the filler of a large request.
func wide(script string) string {
	if strings.Contains(script, "w") {
		return strings.Repeat("w", large)
	}
	return ""
}

// large is the size in bytes of a large result or request.
const large = 150 << 10

// done returns the text of a script's result.
func done(mark, script string) string {
	size := 0
	if strings.Contains(script, "b") {
		size = large
	}
	return mark + "/done" + strings.Repeat(".", size)
}

// tenfold returns a pause: 1 is a millisecond, 5 is ten seconds.
func tenfold(op rune) time.Duration {
	d := time.Millisecond
	for range op - '1' {
		d *= 10
	}
	return d
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *run) tellProgress(ctx context.Context) error {
	r.progress++
	token := r.req.Params.Raw(mcp.MetaProgressToken)
	if token == nil {
		return nil
	}
	return notify(ctx, r.caller, "notifications/progress",
		fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":"%s/p%d"}`, token, r.progress, r.mark, r.progress))
}

// ask asks the client a question. Only the answer to this question is accepted; the client
// may also not answer.
func (r *run) ask(ctx context.Context) error {
	r.asks++
	question := fmt.Sprintf("%s/a%d", r.mark, r.asks)
	req, err := mcp.NewRequest("elicitation/create", fmt.Appendf(nil,
		`{"message":%q,"requestedSchema":{"type":"object","properties":{}}}`, question))
	if err != nil {
		return err
	}
	res, err := mcp.Ask(ctx, r.caller, req)
	if err != nil {
		r.w.note("%s: no answer: %v", question, err)
		if ctx.Err() == nil {
			r.job.lacks(r.w, question)
		}
		return nil // the script continues without an answer
	}
	r.check(question, res.Bytes())
	return nil
}

// check checks that the answer is that of the question.
func (r *run) check(question string, raw []byte) {
	var a struct {
		Content struct {
			Answer string `json:"answer"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &a); err != nil || a.Content.Answer != question {
		r.w.wrong("question %s got the answer %s", question, raw)
	}
}

// require asks for input by its result, if the caller supports that, and reads the input
// when the request is retried. It keeps no state in between.
func (r *run) require() (*mcp.Result, error) {
	if !r.req.TakesInputRequired {
		return nil, nil //nolint:nilnil // nothing to do
	}
	question := r.mark + "/a9"
	if r.input == nil {
		return mcp.NewResult(fmt.Appendf(nil, `{"resultType":"input_required","requestState":%q,"inputRequests":{"q":{"method":"elicitation/create",`+
			`"params":{"message":%q,"requestedSchema":{"type":"object","properties":{}}}}}}`, question, question))
	}
	if strings.HasSuffix(r.mark, ".forged") {
		return nil, nil //nolint:nilnil // a stateless backend cannot distinguish it
	}
	if r.state != question {
		r.w.wrong("%s came back with the state %q", question, r.state)
	}
	var in struct {
		Q json.RawMessage `json:"q"`
	}
	if err := json.Unmarshal(r.input, &in); err != nil {
		return nil, err
	}
	r.check(question, in.Q)
	return nil, nil //nolint:nilnil // the script continues
}
