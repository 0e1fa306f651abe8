// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/http1"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// world contains all parts of one run of a transcript: a gateway behind a real
// http.Server, its backends, its clients. It lives in one bubble.
type world struct {
	t    *testing.T
	d    *transcript
	pair pair

	gateway  *signalbox.Gateway
	folder   string // its state
	front    *memnet.Listener
	outside  *http1.Transport // connects to the backends, by host
	backends map[string]*backend
	clients  map[string]*transcriptClient
	raw      *rawHTTP
	pipes    map[string]*rawPipe
	log      *transcriptLog
	watch    *canary.Watch // for the tokens of clients

	mu     sync.Mutex
	events []event
}

// event is one observation.
type event struct {
	rank   int    // backends first, then clients, then the rest
	source string // "backend a", "client"
	label  string // of the exchange
	text   string
}

func newWorld(t *testing.T, d *transcript, p pair) *world {
	w := &world{folder: t.TempDir(), t: t, d: d, pair: p, front: memnet.Listen(), backends: make(map[string]*backend), clients: make(map[string]*transcriptClient), pipes: make(map[string]*rawPipe)}
	t.Cleanup(func() { time.Sleep(time.Second) }) // net/http closes some connections late
	w.watch = w.newWatch()
	w.log = &transcriptLog{w: w, shown: make(map[string][]string), seen: make(map[string]int)}
	w.outside = memnet.HTTP1(w.dialBackend)
	t.Cleanup(w.outside.CloseIdleConnections)
	for i := range d.script {
		if cmd := &d.script[i]; cmd.actor == "backend" || cmd.actor == "wire" {
			w.backend(cmd.name, cmd.actor == "wire")
		}
	}
	return w
}

const endpointPath = "/mcp"

// startWait is how long a transcript waits for the gateway to know its backends, unless
// it starts the gateway itself.
const startWait = 5 * time.Second

// begin starts the gateway before the first command that is not about a backend.
func (w *world) begin(c *command) {
	if w.gateway != nil || c.actor == "backend" || w.d.startsItself() {
		return
	}
	w.start()
	time.Sleep(startWait)
	w.settle()
}

func (d *transcript) startsItself() bool {
	return slices.ContainsFunc(d.script, func(c command) bool { return c.actor == "gateway" && c.rest == "start" })
}

// start starts the gateway, and the HTTP server in front of it.
func (w *world) start() {
	opt := signalbox.Options{
		StateFolder: w.folder, SignInPages: func() (string, func(), error) { return "http://127.0.0.1:7777", func() {}, nil },
		Transport: w.outside, Logger: slog.New(w.watch.Handler(transcriptHandler{log: w.log})),
	}
	for _, name := range w.names() {
		if !w.d.configures(name) {
			opt.InProcess = append(opt.InProcess, signalbox.InProcess{Name: name, Handler: w.backends[name].handler()})
		}
	}
	g, err := signalbox.New(w.d.config, opt)
	if err != nil {
		w.t.Fatal(err)
	}
	w.gateway = g
	operations, sse := g.Operations(), g.SSE()
	srv := &http.Server{Protocols: memnet.AnyHTTP(), Handler: w.authorized(func(rw http.ResponseWriter, r *http.Request) {
		r = r.WithContext(signalbox.WithProfile(r.Context(), w.d.modes.profile))
		switch r.URL.Path {
		case endpointPath:
			g.ServeHTTP(rw, r)
		case ssePath:
			sse.ServeHTTP(rw, r)
		default:
			operations.ServeHTTP(rw, r)
		}
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(w.front) }() // ends with the Close below
	w.t.Cleanup(func() {
		w.watch.Text("status", fmt.Sprintf("%+v", g.Status()))
		if err := errors.Join(g.Close(), srv.Close()); err != nil {
			w.t.Errorf("closing: %v", err)
		}
		<-served
	})
}

// transport returns the transport of a client to the gateway over HTTP.
func (w *world) transport() *http.Transport {
	if w.pair.in.transport == "http2" {
		return w.front.HTTP2()
	}
	return w.front.Transport()
}

// configures reports whether some configuration of the file has the backend.
func (d *transcript) configures(name string) bool {
	for _, c := range d.configs {
		if slices.ContainsFunc(c.Servers, func(s config.Backend) bool { return s.Name == name }) {
			return true
		}
	}
	return false
}

func (w *world) names() []string {
	names := make([]string, 0, len(w.backends))
	for name := range w.backends {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (w *world) backend(name string, isWire bool) *backend {
	b, ok := w.backends[name]
	if !ok {
		b = newBackend(w, name, isWire)
		w.backends[name] = b
	}
	return b
}

func (w *world) client(name string) *transcriptClient {
	c, ok := w.clients[name]
	if !ok {
		c = newTranscriptClient(w, name)
		w.clients[name] = c
	}
	return c
}

// dialBackend connects to the backend named by the host of a URL.
func (w *world) dialBackend(ctx context.Context, _, addr string) (net.Conn, error) {
	name, _, _ := net.SplitHostPort(addr)
	b, ok := w.backends[name]
	if !ok {
		w.show(2, "gateway", "", "BREACH: connects to "+addr) // no address in a message is contacted
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return b.dial(ctx)
}

// do executes one command of the script. It does not wait: settle collects what
// follows.
func (w *world) do(c *command) {
	w.t.Helper()
	w.begin(c)
	args, err := tokens(expand(c.rest))
	if c.actor == "stdio" || c.actor == "wire" {
		args, err = []string{c.rest}, nil // need not be JSON
	}
	if err != nil || len(args) == 0 {
		w.t.Fatalf("%s:%d: %v", w.d.file, c.line, err)
	}
	ok := false
	switch c.actor {
	case "advance":
		ok = w.advance(args[0])
	case "gateway":
		ok = w.doGateway(args)
	case "client":
		ok = w.client(c.name).do(args)
	case "backend":
		ok = w.backends[c.name].do(args)
	case "wire":
		ok = w.backends[c.name].wire.do(c.rest)
	case "http":
		ok = w.rawHTTP().do(args, c.body)
	case "stdio":
		ok = w.rawPipe(c.name).do(c.rest)
	}
	if !ok {
		w.t.Fatalf("%s:%d: not understood: %s", w.d.file, c.line, c.text())
	}
	if w.isAsking(c.actor, args) {
		time.Sleep(inputWait)
	}
}

// inputWait is longer than the time that a request to a modern client is delayed to be
// sent together with others.
const inputWait = 50 * time.Millisecond

// isAsking reports whether a line may send a request to a client.
func (w *world) isAsking(actor string, args []string) bool {
	switch actor {
	case "backend":
		return args[0] == "ask" || len(args) > 1 && (args[1] == "ask" || args[1] == "asks")
	case "client":
		return args[0] == "answer" || w.confirms()
	default:
		return false
	}
}

// confirms reports whether a policy of the file has the user asked before a call.
func (w *world) confirms() bool {
	for _, cfg := range w.d.configs {
		if slices.ContainsFunc(cfg.Policy.Rules, func(r config.PolicyRule) bool { return r.Confirm != "" }) {
			return true
		}
	}
	return false
}

// advance lets time pass: "advance 30s".
func (w *world) advance(by string) bool {
	d, err := time.ParseDuration(by)
	if err != nil {
		return false
	}
	time.Sleep(d)
	return true
}

// doGateway executes the commands of the gateway's operator.
func (w *world) doGateway(args []string) bool {
	switch args[0] {
	case "start": // gateway> start
		w.start()
	case "reload": // gateway> reload other.yaml
		c, ok := w.d.configs[args[1]]
		if !ok {
			return false
		}
		if err := w.gateway.Reload(w.t.Context(), c); err != nil {
			w.show(2, "gateway", "", "refused: "+err.Error())
		}
	case "status": // gateway> status
		w.showStatus()
	case "log": // gateway> log "not offered as listed" backend problem; records of that message are shown, with these attributes
		w.log.show(unquoted(args[1]), args[2:])
	case "logged": // gateway> logged "request refused"; how many there were
		w.show(2, "gateway", "", fmt.Sprintf("logged %d times", w.log.count(unquoted(args[1]))))
	case "grant": // gateway> grant a; the user signs in at backend a with another program. gateway> grant a ann is about the principal
		w.grant(args[1], strings.Join(args[2:], ""))
	case "ungrant": // gateway> ungrant a ann; the principal signs out with another program
		w.ungrant(args[1], args[2])
	case "shutdown": // gateway> shutdown 30s; prints "stopped" when it is over
		within, err := time.ParseDuration(args[1])
		if err != nil {
			return false
		}
		w.shutdown(within)
	default:
		return false
	}
	return true
}

// showStatus shows the status, without the parts that depend on the mode.
func (w *world) showStatus() {
	s := w.gateway.Status()
	for _, b := range s.Backends {
		w.show(2, "gateway", "", fmt.Sprintf("%s %s: %d tools, %d resources, %d templates, %d prompts",
			b.Name, b.State, b.Tools, b.Resources, b.Templates, b.Prompts))
	}
	for _, p := range s.Problems {
		w.show(2, "gateway", "", "problem: "+p)
	}
	if w.gateway.Ready() {
		w.show(2, "gateway", "", "ready")
	}
}

func (w *world) shutdown(within time.Duration) {
	done := make(chan struct{})
	// Ends with the time; the run waits for it.
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), within)
		defer cancel()
		if err := w.gateway.Shutdown(ctx); err != nil {
			w.show(2, "gateway", "", "stopped: "+err.Error())
			return
		}
		w.show(2, "gateway", "", "stopped")
	}()
	w.t.Cleanup(func() { <-done })
}

// show records an observation.
func (w *world) show(rank int, source, label, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event{rank, source, label, text})
}

// settle waits until all goroutines are idle, and returns the observations since the
// last time: in the order of each observer, and not in that of the scheduler.
func (w *world) settle() []string {
	synctest.Wait()
	events := withoutLate(w.take())
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.source, b.source), cmp.Compare(len(a.label), len(b.label)), cmp.Compare(a.label, b.label))
	})
	var lines []string
	for _, e := range events {
		w.watch.Text(e.source, e.text)
		lines = append(lines, scrubSignIn(collapse(scrubCall(strings.Join(nonEmpty(e.source+"<", e.label, e.text), " ")))))
	}
	return lines
}

// scrubCall replaces the id of a call by ID, if the message and the data have the same.
func scrubCall(text string) string {
	_, after, ok := strings.Cut(text, "(call ")
	id, _, _ := strings.Cut(after, ")")
	if call, valid := mcp.ParseCallID(id); !ok || !valid || call.String() != id || strings.Count(text, id) != 2 {
		return text
	}
	return strings.ReplaceAll(text, id, "ID")
}

// withoutLate leaves out that a request of the server has ended with its call, if the
// call was cancelled at the same time: a backend that receives the cancellation first
// accepts no response, and the order of the two messages is undefined.
func withoutLate(events []event) []event {
	cancelled := func(e event) bool {
		return slices.Contains(events, event{e.rank, e.source, e.label, "cancelled"})
	}
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool {
		return strings.HasSuffix(e.text, `"the request that this one belongs to has ended"`) && cancelled(e)
	})
}

func (w *world) take() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

func nonEmpty(words ...string) []string {
	return slices.DeleteFunc(words, func(s string) bool { return s == "" })
}
