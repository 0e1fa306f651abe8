// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// transcriptClient is one client of the gateway. It shares no code with the product: it
// writes the bytes of the specification and reads what arrives.
type transcriptClient struct {
	w    *world
	name string
	in   inbound
	wire clientWire

	connected bool
	caps      string // capabilities, as JSON
	level     string // of the session
	hasLists  bool
	lastID    int // of requests that the transcript does not show

	mu              sync.Mutex
	exchanges       []*exchange // newest last
	listening       bool
	cursor          string // the last nextCursor
	state           string // the last requestState
	aliases         []alias
	initialize      object   // the gateway's description of itself
	urlElicitations []string // ids of elicitations that sent the user to a URL
	subscribed      []string // the resources that it is subscribed to
	quietly         bool     // the standalone stream is open for those alone
}

// clientWire is a client's transport.
type clientWire interface {
	// request sends a request; the response is passed to receive.
	request(x *exchange, msg []byte)
	// note sends a message that has no response.
	note(msg []byte)
	// listen opens the stream for unrelated messages; unlisten ends it. Both report
	// whether the transport has one.
	listen() bool
	unlisten() bool
	// drop closes the connection of one exchange, if each has its own; resume
	// reconnects for the rest.
	drop(x *exchange) bool
	resume(x *exchange) bool
}

// exchange is one request of a client.
type exchange struct {
	label  string
	id     string // as JSON
	method string
	params object
	opts   options
	quiet  bool   // not shown; the answer is kept
	answer object // of a quiet one

	watch []string // resources or tasks that it subscribes to

	over      bool
	cancelled bool
	promised  bool // an acknowledged subscription
	asks      []pendingAsk
	state     jsontext.Value // requestState of an input_required
	stop      func()         // closes its stream, if it has one
	at        streamPosition // position in a stream of events
}

// pendingAsk is a request of the server that the transcript has shown and not answered.
type pendingAsk struct{ key string }

// options follow a request.
type options struct {
	progress bool   // progress: it requests progress
	level    string // log=info: it requests log messages of that level
	names    bool   // names: only the names of a list are shown
	params   object // {"Region":"eu"} after the parameters: Mcp-Param-* headers, on transports with headers
}

const listenLabel = "listen"

func newTranscriptClient(w *world, name string) *transcriptClient {
	c := &transcriptClient{
		w: w, name: name, in: w.pair.in, lastID: 1000,
		caps: `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}`,
	}
	switch c.in.transport {
	case "stdio":
		c.wire = &stdioWire{c: c}
	case "sse":
		c.wire = newSSEWire(c)
	default:
		c.wire = newHTTPWire(c)
	}
	return c
}

func (c *transcriptClient) show(label, text string) {
	c.w.show(1, strings.TrimSpace("client "+c.name), label, c.nameTasks(text))
}

// breach reports a message that no revision allows. No transcript expects it.
func (c *transcriptClient) breach(x *exchange, format string, args ...any) {
	c.show(x.label, "BREACH: "+fmt.Sprintf(format, args...))
}

// do executes one line of the transcript.
func (c *transcriptClient) do(args []string) bool {
	switch args[0] {
	case "connect": // client> connect; the gateway's description of itself is shown. client> connect {...} declares capabilities
		if len(args) > 1 {
			c.caps = args[1]
		}
		c.connect()
		c.showHello()
		return true
	case "listen": // client> listen; changes are shown from now on
		c.connect()
		return c.listen()
	case "unlisten": // client> unlisten
		return c.unlisten()
	case "watch": // client> watch "file:///a"; updates of the resource are shown
		c.connect()
		return c.watch(args[1])
	case "unwatch": // client> unwatch "file:///a"
		return c.unwatch(args[1])
	case "follow": // client> follow "$task"; states of the task are shown
		c.connect()
		return c.follow(args[1])
	case "unfollow": // client> unfollow "$task"
		return c.cancel(c.open("follow " + args[1]))
	case "cancel": // client> cancel 1
		return c.cancel(c.open(args[1]))
	case "drop": // client> drop 1; its connection is lost
		x := c.open(args[1])
		c.mark(x)
		return c.wire.drop(x)
	case "resume": // client> resume 1; it reconnects for the rest
		return c.wire.resume(c.open(args[1]))
	case "answer": // client> answer 1 {"action":"accept","content":{}}
		return c.answer(c.open(args[1]), args[2:])
	case "refuse": // client> refuse 1 -1 "no"; only the legacy era can
		return c.respond(c.open(args[1]), `"error":{"code":`+args[2]+`,"message":`+args[3]+`}`)
	case "again": // client> again 1; the last request of that label is sent once more, as another one
		return c.resend(c.open(args[1]))
	case "notify": // client> notify notifications/roots/list_changed; parameters may follow
		c.connect()
		params := ""
		if len(args) > 2 {
			params = `,"params":` + args[2]
		}
		c.wire.note([]byte(`{"jsonrpc":"2.0","method":` + string(quoted(args[1])) + params + `}`))
		return true
	default: // client> 1 tools/call {"name":"x"} progress log=info
		return len(args) > 1 && c.call(args[0], args[1], args[2:])
	}
}

// call sends the request of a line.
func (c *transcriptClient) call(label, method string, rest []string) bool {
	x := &exchange{label: label, id: label, method: method}
	if strings.Trim(label, "0123456789") != "" {
		x.id = string(quoted(label))
	}
	for _, arg := range rest {
		level, isLevel := strings.CutPrefix(arg, "log=")
		switch {
		case arg[0] == '{':
			value, err := parseObject([]byte(c.showAliases(strings.NewReplacer("$cursor", c.cursor, "$state", c.state).Replace(arg))))
			if err != nil {
				return false
			}
			if x.params != nil {
				x.opts.params = value
				continue
			}
			x.params = append(object{}, value...)
		case arg == "progress":
			x.opts.progress = true
		case arg == "names":
			x.opts.names = true
		case isLevel:
			x.opts.level = level
		default:
			return false
		}
	}
	c.connect()
	c.setLevel(x.opts.level)
	c.hasLists = c.hasLists || strings.HasSuffix(x.method, "/list")
	c.send(x)
	return true
}

func (c *transcriptClient) send(x *exchange) {
	c.add(x)
	c.wire.request(x, c.request(x))
}

func (c *transcriptClient) add(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchanges = append(c.exchanges, x)
}

// open returns the exchange of a label, or nil.
func (c *transcriptClient) open(label string) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range slices.Backward(c.exchanges) {
		if x.label == label {
			return x
		}
	}
	return nil
}

// mark records that the exchange has ended.
func (c *transcriptClient) mark(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.cancelled = true
}

// unmark records that the exchange is open again.
func (c *transcriptClient) unmark(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.cancelled = false
}

// request returns a request with the metadata of the era.
func (c *transcriptClient) request(x *exchange) []byte {
	params := x.params
	if meta := c.meta(x); len(meta) > 0 {
		own, err := parseObject(params.get("_meta"))
		if err != nil {
			own = nil
		}
		params = params.with("_meta", append(own, meta...).String())
	}
	msg := `{"jsonrpc":"2.0","id":` + x.id + `,"method":` + string(quoted(x.method))
	if len(params) > 0 || x.params != nil {
		msg += `,"params":` + params.String()
	}
	return []byte(msg + "}")
}

func (c *transcriptClient) meta(x *exchange) object {
	var meta object
	if c.in.modern() {
		meta = meta.with("io.modelcontextprotocol/protocolVersion", `"`+string(c.in.version)+`"`).
			with("io.modelcontextprotocol/clientInfo", c.info()).
			with("io.modelcontextprotocol/clientCapabilities", c.caps)
		if x.opts.level != "" {
			meta = meta.with("io.modelcontextprotocol/logLevel", `"`+x.opts.level+`"`)
		}
	}
	if x.opts.progress {
		meta = meta.with("progressToken", x.id)
	}
	return meta
}

func (c *transcriptClient) info() string {
	return `{"name":"client ` + c.name + `","version":"1"}`
}

// connect initializes before the first request, if the era does.
func (c *transcriptClient) connect() {
	c.w.t.Helper()
	if c.connected || c.in.modern() {
		return
	}
	c.connected = true
	hello := c.roundTrip("initialize", `{"protocolVersion":"`+string(c.in.version)+`","capabilities":`+c.caps+`,"clientInfo":`+c.info()+`}`)
	result, err := parseObject(hello.get("result"))
	if err != nil || result.text("protocolVersion") != string(c.in.version) {
		c.w.t.Fatalf("initialize: %s", hello)
	}
	c.mu.Lock()
	c.exchanges = nil
	c.mu.Unlock()
	c.hello(result)
	c.wire.note([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	synctest.Wait()
}

// setLevel sets the level of the session to that of a request.
func (c *transcriptClient) setLevel(level string) {
	if c.in.modern() || level == "" || level == c.level {
		return
	}
	c.level = level
	if got := c.roundTrip("logging/setLevel", `{"level":"`+level+`"}`); string(got.get("result")) != "{}" {
		c.w.t.Fatalf("logging/setLevel: %s", got)
	}
}

func (c *transcriptClient) isOver(x *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return x.over
}

// roundTrip makes a request that the transcript does not show. The response arrives at
// once, or after the longest time that initialize waits for backends.
func (c *transcriptClient) roundTrip(method, params string) object {
	c.w.t.Helper()
	c.lastID++
	p, err := parseObject([]byte(params))
	if err != nil {
		c.w.t.Fatal(err)
	}
	x := &exchange{id: fmt.Sprint(c.lastID), label: method, method: method, params: p, quiet: true}
	c.send(x)
	synctest.Wait()
	if !c.isOver(x) {
		time.Sleep(3 * time.Second)
		synctest.Wait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !x.over {
		c.w.t.Fatalf("%s: no answer within 3s", method)
	}
	return x.answer
}

// cancel cancels a request in the way of the era and the transport.
func (c *transcriptClient) cancel(x *exchange) bool {
	if x == nil {
		return false
	}
	c.mark(x)
	if c.in.modern() && c.in.overHTTP() {
		return c.wire.drop(x) // 2026-07-28, basic/patterns/cancellation
	}
	c.wire.note([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + x.id + `}}`))
	return true
}

// answer answers the oldest open requests of the server in an exchange: by responses in
// the legacy era, and by sending the request again in the modern one.
func (c *transcriptClient) answer(x *exchange, results []string) bool {
	if x == nil || len(x.asks) < len(results) || len(results) == 0 {
		return false
	}
	if !c.in.modern() {
		for _, result := range results {
			c.respond(x, `"result":`+result)
		}
		return true
	}
	answers := object{}
	for i, result := range results {
		answers = answers.with(x.asks[i].key, result)
	}
	x.asks = nil // unanswered ones are sent again
	retry := *x
	retry.params = x.params.with("inputResponses", answers.String())
	if retry.params = retry.params.without("requestState"); x.state != nil {
		retry.params = retry.params.with("requestState", string(x.state))
	}
	return c.resend(&retry)
}

// resend sends a request once more, under another id.
func (c *transcriptClient) resend(x *exchange) bool {
	if x == nil {
		return false
	}
	c.lastID++
	c.send(&exchange{label: x.label, id: fmt.Sprint(c.lastID), method: x.method, opts: x.opts, params: x.params})
	return true
}

// respond answers the oldest open request of the server in a legacy exchange.
func (c *transcriptClient) respond(x *exchange, response string) bool {
	if x == nil || len(x.asks) == 0 || c.in.modern() {
		return false
	}
	ask := x.asks[0]
	x.asks = x.asks[1:]
	c.wire.note([]byte(`{"jsonrpc":"2.0","id":` + ask.key + `,` + response + `}`))
	return true
}

// listen receives changes from now on.
func (c *transcriptClient) listen() bool {
	c.mu.Lock()
	c.listening = true
	c.mu.Unlock()
	if !c.in.modern() {
		// A session is notified of the lists that it has, and requests them once.
		if c.hasLists {
			return c.standalone(false)
		}
		c.hasLists = true
		for _, method := range []string{"tools/list", "prompts/list", "resources/list"} {
			c.roundTrip(method, `{}`)
		}
		return c.standalone(false)
	}
	all, err := parseObject([]byte(`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`))
	if err != nil {
		return false
	}
	c.send(&exchange{label: listenLabel, id: `"listen"`, method: "subscriptions/listen", params: all})
	return true
}

func (c *transcriptClient) unlisten() bool {
	if !c.in.modern() {
		return c.hangUp()
	}
	return c.cancel(c.open(listenLabel))
}
