// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/relay"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// A random client of either era uses a Relay. Its gateway ends at random moments, in the
// middle of lines too, and another one takes its place. All decisions come from a seed;
// the order in which goroutines run does not.

var (
	flagSchedules = flag.Int("sim.schedules", 12, "how many schedules are played")
	flagSeed      = flag.Uint64("sim.seed", 1, "the seed of the first; each next one has the next")
	flagCount     = flag.Int("sim.count", 1, "how often each is played, until it fails")
	flagUntil     = flag.String("sim.until", "", "stop only at a failure that contains this text")
)

func TestSchedules(t *testing.T) {
	var sum tally
	for seed := *flagSeed; seed < *flagSeed+uint64(*flagSchedules); seed++ {
		for range *flagCount {
			out := playSchedule(t, seed)
			sum.add(&out.tally)
			for _, b := range out.breaches {
				if strings.Contains(b, *flagUntil) {
					t.Fatalf("seed %d: %s\n\n%s\n\nthe same again: go test ./internal/relay -run TestSchedules -sim.schedules=1 -sim.count=100 -sim.seed=%d",
						seed, b, strings.Join(out.trace, "\n"), seed)
				}
			}
		}
	}
	t.Logf("%d schedules: %d requests, %d results, %d unknown, %d not dispatched, %d cancelled, %d handshakes of gateways, %d deaths",
		*flagSchedules, sum.requests, sum.results, sum.unknown, sum.unsent, sum.cancelled, sum.gateways, sum.deaths)
}

type tally struct{ requests, results, unknown, unsent, cancelled, gateways, deaths int }

func (t *tally) add(o *tally) {
	t.requests += o.requests
	t.results += o.results
	t.unknown += o.unknown
	t.unsent += o.unsent
	t.cancelled += o.cancelled
	t.gateways += o.gateways
	t.deaths += o.deaths
}

// sim is one schedule.
type sim struct {
	s      *choice.Source
	modern bool
	buffer int
	began  time.Time
	client *memnet.Conn
	writes sync.Mutex // held for a whole line of the client
	wg     sync.WaitGroup

	mu       sync.Mutex
	tally    tally
	breaches []string
	trace    []string
	n        int
	sent     map[string]*sentRequest // by id, as JSON
	ran      map[string]int          // executions, by mark
	open     map[string]bool         // questions that wait for an answer, by id
	deaths   []time.Time
	gateway  *server.Server
	conn     *memnet.Conn // its end of its connection
	end      *mortal
	serving  sync.WaitGroup
	doomed   int           // the next gateway ends at this read or write; 0 is never
	version  int           // of the lists
	changed  chan struct{} // closed with the next version
	notified time.Time     // when the client last heard that the tools may have changed
	updated  time.Time     // and the resource

}

// sentRequest is a request of the client.
type sentRequest struct {
	method, mark string
	at           time.Time
	cancelled    bool
	answers      int
}

func playSchedule(t *testing.T, seed uint64) *sim {
	t.Helper()
	var src choice.Source
	src.Random(seed, 40)
	src.Step()
	w := &sim{
		s: &src, modern: src.Intn(2) == 1, buffer: []int{memnet.DefaultBuffer, 64, 512}[src.Intn(3)],
		sent: make(map[string]*sentRequest), ran: make(map[string]int), open: make(map[string]bool),
	}
	src.Limit(1 + 4 + src.Intn(24))
	synctest.Test(t, func(t *testing.T) {
		w.began, w.changed = time.Now(), make(chan struct{}) // of the bubble
		client, in := memnet.Pipe(w.buffer)
		w.client = client
		ctx, cancel := context.WithCancel(t.Context())
		r := relay.New(relay.Config{Connect: w.connect, Join: w.join, Report: func(text string) { w.note("report: %s", text) }})
		w.wg.Go(func() { // ends with ctx
			_ = r.Run(ctx, in, in)
			_ = in.Close()
		})
		w.wg.Go(w.read) // ends with the pipe
		w.play()
		cancel()
		_ = client.Close()
		w.kill()
		w.wg.Wait()
		w.serving.Wait()
	})
	return w
}

func (w *sim) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *sim) noteLocked(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.trace = append(w.trace, fmt.Sprintf("%12s  %.300s", time.Since(w.began), text))
}

func (w *sim) wrongLocked(format string, args ...any) {
	w.breaches = append(w.breaches, fmt.Sprintf(format, args...))
	w.noteLocked("BREACH: "+format, args...)
}

func (w *sim) play() {
	if w.modern {
		w.request("server/discover", "", "")
	} else {
		w.openSession()
	}
	for w.s.Step() {
		w.step()
		switch w.s.Intn(6) {
		case 0, 1:
			synctest.Wait()
		case 2:
			time.Sleep(time.Millisecond)
		case 3:
			time.Sleep(3 * time.Second)
		}
	}
	w.settle()
}

// openSession opens the session of a legacy client, which waits for the answer.
func (w *sim) openSession() {
	w.request("initialize", "", `"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}`)
	time.Sleep(10 * time.Second)
	w.line(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (w *sim) step() {
	switch what := w.s.Intn(16); {
	case what < 6:
		w.call()
	case what < 8:
		w.cancel()
	case what == 8:
		for range 3 {
			w.call()
		}
	case what == 9:
		w.subscribe()
	case what == 10:
		w.change()
	case what == 11:
		w.mu.Lock()
		w.doomed = 1 + w.s.Intn(12)
		w.noteLocked("the next gateway ends at its operation %d", w.doomed)
		w.mu.Unlock()
	case what == 12:
		w.start()
	default:
		w.kill()
	}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func (w *sim) call() {
	w.mu.Lock()
	mark := fmt.Sprintf("m%d", w.n+1)
	w.mu.Unlock()
	do := []string{"", "w", "ww", "a", "wa", "www", "b"}[w.s.Intn(7)]
	if w.modern {
		do = strings.ReplaceAll(do, "a", "w")
	}
	wide := ""
	if strings.Contains(do, "b") {
		wide = strings.Repeat("x", 300<<10)
	}
	w.request("tools/call", mark, fmt.Sprintf(`"name":"work","arguments":{"mark":%q,"do":%q,"wide":%q}`, mark, do, wide))
}

// request sends a request, from a goroutine: the Relay reads no line while it waits for a
// gateway.
func (w *sim) request(method, mark, params string) {
	w.mu.Lock()
	w.n++
	id := fmt.Sprint(w.n)
	if w.n%2 == 0 {
		id = `"` + id + `"`
	}
	w.sent[id] = &sentRequest{method: method, mark: mark, at: time.Now()}
	w.tally.requests++
	w.noteLocked("> %s %s %s", id, method, mark)
	w.mu.Unlock()
	if w.modern {
		if params != "" {
			params += ","
		}
		params += meta
	}
	w.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
}

// line writes a line of the client without waiting for it. Lines keep their order.
func (w *sim) line(text string) {
	turn := make(chan struct{})
	w.wg.Go(func() { // ends with the pipe
		w.writes.Lock()
		close(turn)
		defer w.writes.Unlock()
		_, _ = io.WriteString(w.client, text+"\n")
	})
	select {
	case <-turn:
	case <-time.After(time.Millisecond): // a line is being written
	}
}

func (w *sim) cancel() {
	w.mu.Lock()
	id := ""
	for n := w.n; n > 0 && id == ""; n-- {
		for _, k := range []string{fmt.Sprint(n), fmt.Sprintf("%q", fmt.Sprint(n))} {
			if q := w.sent[k]; q != nil && q.method == "tools/call" && q.answers == 0 && !q.cancelled {
				q.cancelled, id = true, k
				w.tally.cancelled++
			}
		}
	}
	w.noteLocked("> cancel %s", id)
	w.mu.Unlock()
	if id != "" {
		w.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	}
}

func (w *sim) subscribe() {
	if w.modern {
		w.request("subscriptions/listen", "", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:1"]}`)
		return
	}
	w.request("resources/subscribe", "", `"uri":"x:1"`)
}

func (w *sim) change() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.noteLocked("change %d", w.version)
	close(w.changed)
	w.changed = make(chan struct{})
}

// settle lets everything end, and checks that each request has its answer and that the
// next ones work.
func (w *sim) settle() {
	w.mu.Lock()
	w.doomed = 0
	if w.end != nil {
		w.end.left.Store(0)
	}
	w.noteLocked("---- no gateway ends any more")
	w.mu.Unlock()
	time.Sleep(5 * time.Minute)
	w.call()
	w.call()
	time.Sleep(time.Minute)
	w.mu.Lock()
	for id, q := range w.sent {
		if q.answers != 1 && !q.cancelled && q.method != "subscriptions/listen" {
			w.wrongLocked("%s %s %s has %d answers", id, q.method, q.mark, q.answers)
		}
	}
	w.mu.Unlock()
	w.subscribe()
	time.Sleep(time.Minute)
	w.change()
	w.checkNotified("a change")
	if w.modern {
		return
	}
	w.kill()
	time.Sleep(time.Minute)
	w.start()
	w.checkNotified("another gateway")
	w.change()
	w.checkNotified("a change at another gateway")
}

// checkNotified checks that the client hears soon that everything may have changed.
func (w *sim) checkNotified(of string) {
	since := time.Now()
	time.Sleep(time.Minute)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notified.Before(since) || w.updated.Before(since) {
		w.wrongLocked("the client was not told of %s: of the tools %v, of the resource %v", of, !w.notified.Before(since), !w.updated.Before(since))
	}
}

// read reads what the client receives.
func (w *sim) read() {
	lines := bufio.NewReader(w.client)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		w.receive(strings.TrimSpace(text))
	}
}

// incoming is what is judged of a message for the client.
type incoming struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
		Message   string          `json:"message"`
	} `json:"params"`
	Result *struct {
		Done string `json:"done"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
		Data struct {
			Outcome string `json:"outcome"`
		} `json:"data"`
	} `json:"error"`
}

func (w *sim) receive(text string) {
	var m incoming
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked("< %s", text)
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		w.wrongLocked("a line is no message: %.100s", text)
		return
	}
	switch {
	case m.Method != "" && m.ID != nil:
		w.askedLocked(string(m.ID), m.Params.Message)
	case m.Method == "notifications/cancelled":
		delete(w.open, string(m.Params.RequestID))
	case m.Method == "notifications/tools/list_changed":
		w.notified = time.Now()
	case m.Method == "notifications/resources/updated":
		w.updated = time.Now()
	case m.Method == "":
		w.answeredLocked(string(m.ID), &m)
	}
}

// askedLocked answers a question of a gateway, sometimes late, and then also if it was
// cancelled meanwhile.
func (w *sim) askedLocked(id, question string) {
	if w.open[id] {
		w.wrongLocked("two questions have the id %s", id)
	}
	w.open[id] = true
	late := len(w.trace)%3 == 0
	w.wg.Go(func() { // ends soon
		if late {
			time.Sleep(2 * time.Second)
		}
		w.mu.Lock()
		delete(w.open, id)
		w.mu.Unlock()
		w.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"answer":%q}}}`, id, question))
	})
}

func (w *sim) answeredLocked(id string, m *incoming) {
	q := w.sent[id]
	if q == nil {
		w.wrongLocked("an answer has the id %s, which the client has not used", id)
		return
	}
	q.answers++
	isListen := q.method == "subscriptions/listen"
	if q.answers > 1 {
		w.wrongLocked("%s %s %s has %d answers", id, q.method, q.mark, q.answers)
	}
	switch {
	case isListen && m.Result != nil:
		w.wg.Go(w.subscribe) // as the specification tells the client
	case m.Result != nil:
		w.tally.results++
		if m.Result.Done != q.mark {
			w.wrongLocked("%s %s has the result of %q", id, q.mark, m.Result.Done)
		}
		if q.mark != "" && w.ran[q.mark] != 1 {
			w.wrongLocked("%s has a result and was executed %d times", q.mark, w.ran[q.mark])
		}
	case q.cancelled:
	case m.Error.Data.Outcome == string(mcp.Unknown), m.Error.Data.Outcome == string(mcp.NotDispatched):
		w.failedLocked(id, q, m.Error.Data.Outcome)
	default:
		w.wrongLocked("%s %s %s failed by itself: %d %s", id, q.method, q.mark, m.Error.Code, m.Error.Data.Outcome)
	}
}

// failedLocked judges an error of the Relay: a gateway has ended while the request was in
// flight.
func (w *sim) failedLocked(id string, q *sentRequest, outcome string) {
	died := false
	for _, at := range w.deaths {
		died = died || !at.Before(q.at)
	}
	if !died {
		w.wrongLocked("%s %s %s failed, and no gateway has ended since it was sent", id, q.method, q.mark)
	}
	if outcome == string(mcp.Unknown) {
		w.tally.unknown++
		return
	}
	w.tally.unsent++
	if w.ran[q.mark] > 0 {
		w.wrongLocked("%s was executed, and the error says that it was not", q.mark)
	}
}

func (w *sim) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gateway == nil {
		w.tally.gateways++
		w.noteLocked("a gateway starts")
		w.gateway = server.New(mcp.HandlerFunc(w.serve), server.Config{})
	}
}

func (w *sim) connect(ctx context.Context) (relay.Conn, error) {
	for {
		w.start()
		if c := w.join(ctx); c != nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (w *sim) join(context.Context) relay.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gateway == nil {
		return nil
	}
	near, far := memnet.Pipe(w.buffer)
	gw := w.gateway
	w.conn = far
	end := &mortal{Conn: far, die: func() { w.die(gw, far) }} //nolint:contextcheck // a gateway is killed, whatever the context
	end.left.Store(int64(w.doomed))
	w.end, w.doomed = end, 0
	w.serving.Go(func() { //nolint:contextcheck // ends with the connection
		_ = gw.ServeStdioAs(context.Background(), &mcp.Identity{Principal: "local"}, end, end)
		_ = far.Close()
	})
	return near
}

// mortal is a gateway's end of a connection, which ends at a certain operation.
type mortal struct {
	*memnet.Conn

	left atomic.Int64 // operations until then; 0 is never
	die  func()
}

var errDead = errors.New("the gateway has ended")

func (m *mortal) isLast() bool { return m.left.Load() > 0 && m.left.Add(-1) == 0 }

func (m *mortal) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if err == nil && m.isLast() {
		m.die()
		return 0, errDead
	}
	return n, err
}

func (m *mortal) Write(p []byte) (int, error) {
	if m.isLast() {
		n, _ := m.Conn.Write(p[:len(p)/2])
		m.die()
		return n, errDead
	}
	return m.Conn.Write(p)
}

// kill ends the gateway, and drops what is in its connection.
func (w *sim) kill() {
	w.mu.Lock()
	conn, gw := w.conn, w.gateway
	w.mu.Unlock()
	if gw != nil {
		w.die(gw, conn)
	}
}

func (w *sim) die(gw *server.Server, conn *memnet.Conn) {
	w.mu.Lock()
	if w.gateway == gw {
		w.gateway, w.conn = nil, nil
		w.tally.deaths++
		w.noteLocked("the gateway ends")
	}
	w.deaths = append(w.deaths, time.Now())
	w.mu.Unlock()
	if conn != nil {
		conn.Reset()
	}
	w.serving.Go(func() { _ = gw.Close() }) // ends with its requests
}

// serve is the Handler of all gateways.
func (w *sim) serve(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(discovered))
	case "subscriptions/listen":
		return w.serveListen(ctx, req, c)
	case "tools/call":
		return w.work(ctx, req, c)
	default:
		return mcp.NewResult([]byte(`{}`))
	}
}

func (w *sim) serveListen(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	filter := req.Params.Raw(mcp.FieldNotifications)
	tell := func(method, params string) error {
		n, err := mcp.NewNotification(method, []byte(params))
		if err != nil {
			return err
		}
		return c.Notify(ctx, n)
	}
	w.mu.Lock()
	changed := w.changed
	w.mu.Unlock()
	err := tell("notifications/subscriptions/acknowledged", fmt.Sprintf(`{"notifications":%s}`, filter))
	for err == nil {
		select {
		case <-ctx.Done():
			return mcp.NewResult([]byte(`{}`))
		case <-changed:
		}
		w.mu.Lock()
		changed = w.changed
		w.mu.Unlock()
		if strings.Contains(string(filter), `"toolsListChanged":true`) {
			err = tell("notifications/tools/list_changed", "")
		}
		if err == nil && strings.Contains(string(filter), "x:1") {
			err = tell("notifications/resources/updated", `{"uri":"x:1"}`)
		}
	}
	return nil, err
}

// work executes a script: w is a pause, a asks the client.
func (w *sim) work(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	var params struct {
		Arguments struct{ Mark, Do string }
	}
	if err := json.Unmarshal(req.Params.Bytes(), &params); err != nil {
		return nil, err
	}
	mark := params.Arguments.Mark
	w.mu.Lock()
	w.ran[mark]++
	w.noteLocked("%s is executed", mark)
	if w.ran[mark] > 1 {
		w.wrongLocked("%s was executed %d times", mark, w.ran[mark])
	}
	w.mu.Unlock()
	for _, op := range params.Arguments.Do {
		switch op {
		case 'w':
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case 'a':
			ask, err := mcp.NewRequest("elicitation/create", fmt.Appendf(nil, `{"message":%q,"requestedSchema":{"type":"object","properties":{}}}`, mark))
			if err != nil {
				return nil, err
			}
			res, err := mcp.Ask(ctx, c, ask)
			if err != nil {
				return nil, err
			}
			if !strings.Contains(string(res.Bytes()), fmt.Sprintf("%q", mark)) {
				w.mu.Lock()
				w.wrongLocked("the question of %s has the answer %s", mark, res.Bytes())
				w.mu.Unlock()
			}
		}
	}
	return mcp.NewResult(fmt.Appendf(nil, `{"content":[],"done":%q}`, mark))
}
