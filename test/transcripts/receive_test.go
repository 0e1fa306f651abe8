// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// receive receives one message. x is the exchange of its stream; it is nil on a pipe,
// where the message itself must identify the exchange.
func (c *transcriptClient) receive(x *exchange, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := parseObject(raw)
	if x == nil {
		x = c.addresseeLocked(m)
	}
	method := m.text("method")
	switch {
	case err != nil || m.text("jsonrpc") != "2.0":
		c.breach(x, "no message: %s", raw)
	case x.quiet:
		x.answer, x.over = m, true
	case method != "" && m.has("id"):
		c.askedLocked(x, m)
	case method != "":
		c.notifiedLocked(x, method, m.get("params"))
	default:
		c.answeredLocked(x, m)
	}
}

// addresseeLocked finds the exchange of a message on a pipe: by its id, by its token,
// by its subscription. A message without these belongs to the only exchange.
func (c *transcriptClient) addresseeLocked(m object) *exchange {
	params, err := parseObject(m.get("params"))
	if err != nil {
		params = nil
	}
	keys := []string{string(params.get("progressToken")), string(params.meta(subscriptionID))}
	if m.text("method") == "notifications/cancelled" {
		keys = append(keys, string(params.get("requestId")))
	}
	if !m.has("method") {
		keys = []string{string(m.get("id"))}
	}
	if i := slices.IndexFunc(c.exchanges, func(x *exchange) bool { return slices.Contains(keys, x.id) }); i >= 0 {
		return c.exchanges[i]
	}
	var open []*exchange
	for _, x := range c.exchanges {
		if !x.over && x.label != listenLabel && len(x.watch) == 0 {
			open = append(open, x)
		}
	}
	if len(open) == 1 && !strings.HasSuffix(m.text("method"), "list_changed") && m.text("method") != "notifications/tasks/status" {
		return open[0]
	}
	if i := slices.IndexFunc(c.exchanges, func(x *exchange) bool { return x.label == listenLabel && len(x.watch) == 0 }); i >= 0 && m.has("id") {
		return c.exchanges[i]
	}
	return &exchange{label: listenLabel, id: listenLabel}
}

// askedLocked receives a request of the server, which only the legacy era has.
func (c *transcriptClient) askedLocked(x *exchange, m object) {
	if c.in.modern() {
		c.breach(x, "a request of the server: %s", m)
	}
	if !slices.Contains(c.exchanges, x) {
		c.exchanges = append(c.exchanges, x) // it is answered later
	}
	x.asks = append(x.asks, pendingAsk{string(m.get("id"))})
	params, err := parseObject(m.get("params"))
	if err != nil {
		c.show(x.label, "ask "+m.text("method"))
		return
	}
	if params.text("mode") == "url" && !params.has("elicitationId") {
		c.breach(x, "a URL without elicitationId: %s", params) // 2025-11-25, schema
	}
	c.show(x.label, "ask "+m.text("method")+" "+c.urlElicitationLocked(x, params, true).String())
}

// urlElicitationLocked hides the id of an elicitation that sends the user to a URL,
// which is different each time. A later notification must be about a known one.
func (c *transcriptClient) urlElicitationLocked(x *exchange, params object, asked bool) object {
	id := params.text("elicitationId")
	switch {
	case id == "":
		return params
	case asked:
		c.urlElicitations = append(c.urlElicitations, id)
	case !slices.Contains(c.urlElicitations, id):
		c.breach(x, "the end of a visit that was not asked for: %s", params)
	}
	return params.with("elicitationId", `"$elicitation"`)
}

const subscriptionID = "io.modelcontextprotocol/subscriptionId"

func (c *transcriptClient) notifiedLocked(x *exchange, method string, raw jsontext.Value) {
	params, err := parseObject(raw)
	if raw != nil && err != nil {
		c.breach(x, "%s: params: %v", method, err)
	}
	if x.cancelled && method != "notifications/cancelled" {
		c.breach(x, "%s after the end", method)
	}
	if method == "notifications/cancelled" && x.over && string(params.get("requestId")) == x.id {
		return // a server on a pipe closes the stream of a subscription like this
	}
	if method == "notifications/progress" {
		if !x.opts.progress || string(params.get("progressToken")) != x.id {
			c.breach(x, "progress of another: %s", raw)
		}
		params = params.without("progressToken")
	}
	subscription := string(params.meta(subscriptionID))
	if isListen := x.isListen() && c.in.modern(); isListen != (subscription != "") || isListen && subscription != x.id {
		c.breach(x, "%s of subscription %q", method, subscription)
	}
	params = params.withoutMeta(subscriptionID)
	if method == "notifications/subscriptions/acknowledged" && x.isListen() {
		c.acknowledgedLocked(x, params)
		return
	}
	if x.isListen() && c.in.modern() && !x.promised {
		c.breach(x, "%s before the acknowledgement", method)
	}
	if method == "notifications/resources/updated" {
		c.updatedLocked(x, params)
		return
	}
	if method == "notifications/tasks" {
		c.followedLocked(x, params)
		return
	}
	if x.label == listenLabel && !c.listening {
		return // a pipe cannot be closed to unrequested messages
	}
	text := method
	if params = c.urlElicitationLocked(x, params, false); len(params) > 0 {
		text += " " + params.String()
	}
	c.show(x.label, text)
}

// acknowledgedLocked receives the acknowledgement of a subscription, which arrives
// first and once (2026-07-28, basic/patterns/subscriptions, "Acknowledgment").
func (c *transcriptClient) acknowledgedLocked(x *exchange, params object) {
	if len(x.watch) > 0 {
		c.watchAgreedLocked(x, params)
		return
	}
	if promised, want := compact(params.get("notifications")), compact(x.params.get("notifications")); x.promised || promised != want {
		c.breach(x, "acknowledged %s, asked for %s", promised, want)
	}
	x.promised = true
}

// answeredLocked receives the response of an exchange.
func (c *transcriptClient) answeredLocked(x *exchange, m object) {
	if id := string(m.get("id")); id != x.id {
		c.breach(x, "the answer has id %s, not %s", id, x.id)
	}
	if x.over || x.cancelled {
		c.breach(x, "an answer after the end: %s", m)
	}
	x.over = true
	if len(x.watch) > 0 {
		c.watchAnsweredLocked(x, m)
		return
	}
	if e, err := parseObject(m.get("error")); err == nil {
		var code int64
		if err := json.Unmarshal(e.get("code"), &code); err != nil {
			c.breach(x, "error code: %s", e)
		}
		c.show(x.label, describeError(code, string(e.get("message")), e.get("data")))
		return
	}
	result, err := parseObject(m.get("result"))
	if err != nil {
		c.breach(x, "neither result nor error: %s", m)
		return
	}
	c.resultLocked(x, result)
}

func (c *transcriptClient) resultLocked(x *exchange, result object) {
	if c.in.modern() && result.text("resultType") == "input_required" {
		c.inputRequiredLocked(x, result)
		return
	}
	result = c.neutralLocked(x, result)
	switch {
	case x.label == listenLabel:
		c.show(x.label, "end")
	case x.opts.names:
		c.show(x.label, namesOf(result))
	default:
		c.show(x.label, "result "+result.String())
	}
}

// inputRequiredLocked receives the requests of a modern server.
func (c *transcriptClient) inputRequiredLocked(x *exchange, result object) {
	questions, err := parseObject(result.get("inputRequests"))
	if err != nil {
		c.breach(x, "input_required: %s", result)
	}
	x.over, x.state, c.state = true, result.get("requestState"), result.text("requestState")
	for _, q := range questions {
		ask, err := parseObject(q.value)
		if err != nil {
			c.breach(x, "input_required: %s", result)
		}
		x.asks = append(x.asks, pendingAsk{q.name})
		c.show(x.label, strings.TrimSpace("ask "+ask.text("method")+" "+compact(ask.get("params"))))
	}
}

const serverInfo = "io.modelcontextprotocol/serverInfo"

// neutralLocked checks what the era adds to a result, and removes it.
func (c *transcriptClient) neutralLocked(x *exchange, result object) object {
	if next := result.text("nextCursor"); next != "" {
		c.cursor = next
		result = result.with("nextCursor", `"$cursor"`)
	}
	if !c.in.modern() {
		for _, name := range []string{"resultType", "ttlMs", "cacheScope"} {
			if result.has(name) {
				c.breach(x, "%s has no %s: %s", c.in.version, name, result)
			}
		}
		return result
	}
	isTask := x.method == "tools/call" && strings.Contains(c.caps, `"io.modelcontextprotocol/tasks"`) && result.text("resultType") == "task"
	if result.text("resultType") != "complete" && !isTask {
		c.breach(x, "resultType: %s", result)
	}
	c.nameInputs(result)
	result = result.without("resultType").withoutMeta(serverInfo, subscriptionID)
	if !isCached(x.method) {
		return result
	}
	if scope := result.text("cacheScope"); !result.has("ttlMs") || scope != "private" && scope != "public" {
		c.breach(x, "%s without ttlMs and cacheScope: %s", x.method, result)
	}
	return result.without("ttlMs", "cacheScope")
}

// isCached: 2026-07-28, server/utilities/caching.
func isCached(method string) bool {
	return method == "server/discover" || method == "resources/read" || strings.HasSuffix(method, "/list")
}

// namesOf returns a list by the names of its items.
func namesOf(result object) string {
	var names []string
	for _, m := range result {
		var items []struct{ Name, URI, URITemplate string }
		if err := json.Unmarshal(m.value, &items); err != nil {
			continue
		}
		for _, it := range items {
			names = append(names, max(it.URI, it.URITemplate, it.Name))
		}
	}
	text := strings.Join(names, " ")
	if len(names) > 10 {
		text = strings.Join(names[:2], " ") + " ... " + strings.Join(names[len(names)-2:], " ")
	}
	if result.has("nextCursor") {
		text += ", more"
	}
	return fmt.Sprintf("%d names: %s", len(names), text)
}

// hello stores the result of initialize; in the modern era it is requested.
func (c *transcriptClient) hello(result object) {
	if result.text("protocolVersion") == "" {
		c.w.t.Errorf("initialize: %s", result)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initialize = result.without("protocolVersion")
}

// showHello shows the gateway's description of itself, in the form of initialize.
func (c *transcriptClient) showHello() {
	if c.in.modern() {
		answer := c.roundTrip("server/discover", `{}`)
		result, err := parseObject(answer.get("result"))
		if err != nil {
			c.w.t.Fatalf("server/discover: %s", answer)
		}
		if !strings.Contains(string(result.get("supportedVersions")), string(c.in.version)) {
			c.w.t.Errorf("server/discover: supportedVersions: %s", result)
		}
		var greeting object
		greeting = greeting.with("capabilities", string(result.get("capabilities"))).with("serverInfo", string(result.meta(serverInfo)))
		if instructions := result.get("instructions"); instructions != nil {
			greeting = greeting.with("instructions", string(instructions))
		}
		c.initialize = greeting
	}
	c.show("connect", c.initialize.String())
}
