// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// modernClient implements 2026-07-28.
type modernClient struct {
	raw

	mu      sync.Mutex
	drops   map[*record]context.CancelFunc
	listens []*listenStream
	kept    string // the parameters of the last retry, without its _meta
}

func newModernClient(w *world, name, token string) *modernClient {
	return &modernClient{raw: newRaw(w, name, token), drops: make(map[*record]context.CancelFunc)}
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}},` +
	`"io.modelcontextprotocol/logLevel":"debug"`

func modernHeaders(method, name string) http.Header {
	h := http.Header{}
	h.Set("Mcp-Protocol-Version", "2026-07-28")
	h.Set("Mcp-Method", method)
	if name != "" {
		h.Set("Mcp-Name", name)
	}
	return h
}

// act performs one random action of a client.
func (c *modernClient) act(s *choice.Source) {
	switch s.Intn(15) {
	default:
		c.call(c.newCall(s, mcp.EraModern), answerMode(s.Intn(int(answerModes))))
	case 5:
		for range 2 + s.Intn(3) {
			c.call(c.newCall(s, mcp.EraModern), atOnce)
		}
	case 6, 7, 11, 12:
		if r := pick(s, c.w.openRecords(c.name)); r != nil {
			c.hangUp(r)
		}
	case 8, 13:
		c.listen(listenFilter{true, s.Intn(2) == 1, s.Intn(2) == 1})
	case 14:
		c.trespass(s)
	case 9:
		c.closeListen(s)
	case 10:
		if r := pick(s, c.w.openRecords(c.name)); r != nil {
			again := c.newCall(s, mcp.EraModern)
			again.id, again.again = r.id, true
			c.call(again, atOnce)
		}
	}
}

func (c *modernClient) call(r *record, b answerMode) {
	c.w.countAction("modern call")
	ctx, cancel := context.WithCancel(c.w.ctx)
	c.mu.Lock()
	c.drops[r] = cancel
	c.mu.Unlock()
	c.spawn(func() {
		defer cancel()
		c.run(ctx, r, b)
		c.mu.Lock()
		delete(c.drops, r)
		c.mu.Unlock()
	})
}

// run makes a call, and retries it with the requested input until it has its result.
func (c *modernClient) run(ctx context.Context, r *record, b answerMode) {
	input := ""
	var from *gateway
	for round := range rounds {
		to := r.goesTo(round)
		if round > 0 {
			to = c.comeBack(ctx, r, round, from, input)
		}
		r.attempt(to, to.front)
		required := c.round(ctx, r, to, input)
		from = to
		if required == nil {
			return
		}
		if input = c.answer(ctx, r, required, b, input); input == "" {
			return
		}
	}
	r.excuse("it was asked too often")
}

// rounds limits the retries of a request.
const rounds = 6

// comeBack begins the next round of a request, and returns its gateway. The other replica
// does not know a parked request.
func (c *modernClient) comeBack(ctx context.Context, r *record, round int, from *gateway, input string) *gateway {
	to := r.goesTo(round)
	strays := to != from && r.isParked(input)
	if strays && r.insists(round) {
		c.stray(ctx, r, to, input)
		to, strays = from, false
	}
	r.nextRound(fmt.Sprintf(`"%s round %d"`, r.mark, round), strays)
	return to
}

// nextRound sets the id of the request's retry.
func (r *record) nextRound(id string, strays bool) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.rounds++
	r.id = id
	r.strayed = r.strayed || strays
	r.conn.Store(nil)
}

// round makes one attempt. It returns the input request for the next, or nil.
func (c *modernClient) round(ctx context.Context, r *record, to *gateway, input string) *note {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{%s%s,"_meta":{%s,"progressToken":%s}}}`,
		r.id, r.callParams(), input, modernMeta, r.id)
	c.w.note("%s > %s", r.mark, body)
	res, err := c.send(ctx, to, &r.conn, http.MethodPost, body, modernHeaders("tools/call", c.w.tool))
	if err != nil {
		r.unheard(err)
		return nil
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		said, err := io.ReadAll(res.Body)
		if err != nil {
			r.lost(err)
			return nil
		}
		r.refused(res.StatusCode, said)
		return nil
	}
	var required *note
	end := c.follow(res, "", func(m *mcp.Message) {
		if required != nil {
			c.w.wrong("%s: got a message behind input_required: %s", r.mark, short(m.Raw))
		}
		if n, more := r.take("POST", m); more && m.Kind == mcp.KindResult {
			required = &n
		}
	})
	if required == nil {
		r.ranOut(end)
	}
	return required
}

// answer returns the parameters of the next round, or "" after the last.
func (c *modernClient) answer(ctx context.Context, r *record, required *note, b answerMode, input string) string {
	c.w.countAction("input required")
	next := c.reply(r, required)
	switch b {
	case never:
		r.excuse("it is never answered")
		return ""
	case later:
		_ = pause(ctx, tenfold('4')+min(c.w.idle.after, 2*tenfold('4'))+tenfold('4')) // longer than a short idle time
	case twice:
		c.twice(ctx, r, next)
	case wrongly:
		if input == "" {
			// An invented state: it must be refused, or asked again.
			c.forge(ctx, r)
		}
	default: // with the next request
	}
	return next
}

// reply returns the parameters of the next round, with the answer to each question.
func (c *modernClient) reply(r *record, required *note) string {
	responses := make(map[string]json.RawMessage)
	for key, q := range required.Result.Input {
		responses[key] = json.RawMessage(answerTo(q.Params.Message))
		c.w.answers(q.Params.Message)
	}
	raw, err := json.Marshal(responses)
	if err != nil {
		c.w.wrong("%s: %v", r.mark, err)
		return ""
	}
	next := fmt.Sprintf(`,"inputResponses":%s`, raw)
	if required.Result.State != nil {
		next += fmt.Sprintf(`,"requestState":%s`, required.Result.State)
	}
	c.keep(r.callParams() + next)
	return next
}

// forge retries with an invented state. Whatever the answer is, it must belong to this
// request.
func (c *modernClient) forge(ctx context.Context, r *record) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"forged","method":"tools/call","params":{%s,"inputResponses":{},"requestState":"AAAA","_meta":{%s}}}`,
		strings.ReplaceAll(r.callParams(), r.mark, r.mark+".forged"), modernMeta)
	c.aside(ctx, r.goesTo(rounds-1), body, r.mark+".forged")
}

// twice retries with the same state once more, concurrently with the first retry or before
// it. One of them is served, and the other is refused.
func (c *modernClient) twice(ctx context.Context, r *record, input string) {
	r.w.mu.Lock()
	r.doubled = true
	r.w.mu.Unlock()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"double","method":"tools/call","params":{%s%s,"_meta":{%s}}}`, r.callParams(), input, modernMeta)
	c.spawn(func() { c.aside(ctx, r.goesTo(rounds-1), body, r.mark) })
}

// aside sends a request and checks only that its answer belongs to it. It returns the
// answer. The status is 0 without an answer.
func (c *modernClient) aside(ctx context.Context, to *gateway, body, mark string) (answer string, status int) {
	c.w.note("%s > aside %s", mark, body)
	res, err := c.send(ctx, to, nil, http.MethodPost, body, modernHeaders("tools/call", c.w.tool))
	if err != nil {
		return "", 0
	}
	said, err := io.ReadAll(res.Body)
	res.Body.Close()
	c.w.note("%s aside < %d %s", mark, res.StatusCode, short(said))
	if text := string(said); strings.Contains(text, `"result"`) && !strings.Contains(text, mark+"/") {
		c.w.wrong("%s: got the answer of another: %s", mark, short(said))
	}
	if err != nil {
		return "", 0
	}
	return string(said), res.StatusCode
}

// hangUp closes the response of a call, which is the modern way to cancel it.
func (c *modernClient) hangUp(r *record) {
	c.mu.Lock()
	drop := c.drops[r]
	c.mu.Unlock()
	if drop == nil {
		return
	}
	c.w.countAction("modern cancel")
	r.giveUp("the client hung up")
	c.w.note("%s: hangs up", r.mark)
	drop()
}

// listen opens a subscription.
func (c *modernClient) listen(wanted listenFilter) *listenStream {
	c.w.countAction("listen")
	ctx, cancel := context.WithCancel(c.w.ctx)
	e := &listenStream{cancel: cancel}
	c.n++
	id := fmt.Sprintf(`"listen %d"`, c.n)
	to := c.w.anyGateway()
	c.mu.Lock()
	c.listens = append(c.listens, e)
	c.mu.Unlock()
	c.spawn(func() {
		defer cancel()
		defer e.open.Store(false)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{%s,"_meta":{%s}}}`,
			id, strings.Trim(wanted.filter(), "{}")+"}", modernMeta)
		res, err := c.send(ctx, to, nil, http.MethodPost, body, modernHeaders("subscriptions/listen", ""))
		if err != nil {
			return
		}
		if res.StatusCode != http.StatusOK {
			c.w.note("%s: listen: %d", c.name, res.StatusCode)
			res.Body.Close()
			return
		}
		h := subscription{c: c, e: e, id: id, wanted: wanted}
		c.follow(res, "", h.take)
	})
	return e
}

// subscription is what was received on a subscription so far.
type subscription struct {
	c      *modernClient
	e      *listenStream
	id     string
	wanted listenFilter
	acked  bool
	ended  bool
}

// take judges a message: first the acknowledgement, then changes of this subscription, and
// perhaps its result.
func (h *subscription) take(m *mcp.Message) {
	h.c.w.note("%s listen %s < %s", h.c.name, h.id, short(m.Raw))
	var of struct {
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	_ = json.Unmarshal(m.Raw, &of) // it was parsed before
	mine := string(of.Params.Meta["io.modelcontextprotocol/subscriptionId"]) == h.id
	switch {
	case h.ended:
		h.c.w.wrong("%s: a message behind the end of a listen: %s", h.c.name, m.Raw)
	case m.Kind == mcp.KindResult || m.Kind == mcp.KindError:
		h.ended = true
		if m.ID.String() != h.id {
			h.c.w.wrong("%s: the listen %s ended with %s", h.c.name, h.id, m.Raw)
		}
	case !h.acked && m.Method == "notifications/subscriptions/acknowledged" && mine && h.agree(m):
		h.acked = true
	case h.acked && mine && h.e.receive(m.Method, textOf(m, mcp.FieldURI)):
	default:
		h.c.w.wrong("%s: the listen %s brought %s", h.c.name, h.id, m.Raw)
	}
}

func (h *subscription) agree(m *mcp.Message) bool {
	agreed, err := readFilter(m.Params.Bytes())
	return err == nil && h.e.promise(h.wanted, agreed)
}

func textOf(m *mcp.Message, f mcp.Field) string {
	text, _ := m.Params.Text(f)
	return text
}

// keep records the parameters of a retry, for other principals to try.
func (c *modernClient) keep(params string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = params
}

func (c *modernClient) closeListen(s *choice.Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := pick(s, c.listens); e != nil {
		e.cancel()
	}
}

func (c *modernClient) settle() {}

func (c *modernClient) heard() []streamState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return streamStates(c.listens)
}

func (c *modernClient) probe() *record {
	s := new(choice.Source)
	s.Again(nil)
	r := c.newCall(s, mcp.EraModern)
	r.script = "p"
	c.call(r, atOnce)
	return r
}

func (c *modernClient) watch() func() streamState {
	return c.listen(listenFilter{tools: true, one: true}).heard
}
