// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Members of a message besides those of JSON-RPC, as sent and as they must arrive.
const (
	outer     = `"first":[1.0,{"id":2}],"jsonrpc":"2.0","extra":{"x":1e2}`
	forwarded = `"first":[1.0,{"id":2}],"extra":{"x":1e2}`
)

// besideIn fails unless the message has the expected members, once.
func besideIn(t *testing.T, what, msg string) {
	t.Helper()
	m, err := mcp.Parse([]byte(msg), mcp.Limits{})
	if err != nil || strings.Count(msg, forwarded) != 1 {
		t.Errorf("%s: %v: %s", what, err, msg)
	}
	if msg = strings.Replace(msg, ","+forwarded, "", 1); strings.Contains(msg, "extra") || m.Kind == mcp.KindInvalid {
		t.Errorf("%s besides: %s", what, msg)
	}
}

// Members of an envelope that JSON-RPC does not define reach the other end, in both
// directions, in any message and between all eras (I42).
func TestM196MembersOfTheEnvelope(t *testing.T) {
	small := `{"content":[],"resultType":"complete"}`
	large := `{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("0123456789", largePart/10) + `"}]}`
	for name, tt := range map[string]struct {
		answer func(x *faultyserver.Exchange)
		event  bool
	}{
		"JSON":                 {func(x *faultyserver.Exchange) { outward(x, `{`+outer+`,"id":%s,"result":`+small+`}`) }, false},
		"JSON of many bytes":   {func(x *faultyserver.Exchange) { outward(x, `{`+outer+`,"id":%s,"result":`+large+`}`) }, false},
		"JSON that is changed": {func(x *faultyserver.Exchange) { outward(x, `{`+outer+`,"id":%s,"result":{"structuredContent":1}}`) }, false},
		"members behind":       {func(x *faultyserver.Exchange) { outward(x, `{"result":`+small+`,"id":%s,`+outer+`}`) }, false},
		"members behind much":  {func(x *faultyserver.Exchange) { outward(x, `{"id":%s,"result":`+large+`,`+outer+`}`) }, false},
		"an error":             {func(x *faultyserver.Exchange) { outward(x, `{`+outer+`,"id":%s,"error":{"code":-5,"message":"m"}}`) }, false},
		"an error of one era": {func(x *faultyserver.Exchange) {
			outward(x, `{`+outer+`,"id":%s,"error":{"code":-32042,"message":"m"}}`)
		}, false},
		"an event": {func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{`+outer+`,"id":%s,"result":`+small+`}`, x.Msg.ID))
		}, false},
		"an event of many bytes": {func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{`+outer+`,"id":%s,"result":`+large+`}`, x.Msg.ID))
		}, false},
		"progress": {func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{`+outer+`,"method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, x.Msg.Params.Raw(mcp.MetaProgressToken)))
			x.Event("", fmt.Sprintf(`{`+outer+`,"id":%s,"result":`+small+`}`, x.Msg.ID))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
				synctest.Test(t, func(t *testing.T) {
					besideBothWays(t, clientEra, backendEra, tt.answer, tt.event)
				})
			})
		})
	}
}

// outward answers with a JSON document that contains the id.
func outward(x *faultyserver.Exchange, format string) {
	x.Status(http.StatusOK, "application/json", strings.Replace(format, "%s", x.Msg.ID.String(), 1))
}

func besideBothWays(t *testing.T, clientEra, backendEra mcp.Era, answer func(x *faultyserver.Exchange), event bool) {
	s := gatewaytest.ServerWithTools(backendEra == mcp.EraModern, "x")
	s.On["tools/call"] = answer
	h := gatewaytest.Backends{"b": s}.Open(t, nil)
	var got gatewaytest.Response
	if clientEra == mcp.EraModern {
		body, headers := gatewaytest.ModernRequest("1", "tools/call", "b__x", "")
		body = strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":7,`, 1)
		got = h.Post(withOuter(body), headers)
	} else {
		body := gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x","_meta":{"progressToken":7}}`)
		got = h.Post(withOuter(body), h.Legacy())
	}
	for _, r := range s.Seen() {
		if r.Method == "tools/call" {
			besideIn(t, "the request", r.Body)
		}
	}
	msgs := []string{got.Body}
	if event {
		msgs = nil
		for line := range strings.Lines(got.Body) {
			if data, ok := strings.CutPrefix(line, "data: {"); ok {
				msgs = append(msgs, "{"+data)
			}
		}
		if len(msgs) != 2 {
			t.Errorf("%d messages in %s", len(msgs), got.Body)
		}
	}
	for _, msg := range msgs {
		besideIn(t, "the answer", strings.TrimSpace(msg))
	}
}

// withOuter adds the members to a message.
func withOuter(msg string) string { return strings.Replace(msg, `"jsonrpc":"2.0"`, outer, 1) }

// The same for a request of the server and its response, and for unrelated messages.
func TestM196MembersOfTheEnvelopeOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan string, 1)
		s := gatewaytest.ServerWithTools(false, "x")
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("", `{`+outer+`,"id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
			answer := <-answered
			x.Event("", `{`+outer+`,"method":"notifications/message","params":{"level":"error","data":1}}`)
			x.Response(`{"content":[]}`)
			besideIn(t, "the answer to the question", answer)
		}
		s.On[""] = func(x *faultyserver.Exchange) {
			x.W.WriteHeader(http.StatusAccepted)
			answered <- string(x.Msg.Raw)
		}
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		sess := h.Legacy()
		e := h.Stream(h.Request(t.Context(), http.MethodPost, gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x"}`), sess))
		question := e.Next()
		besideIn(t, "the question", question)
		m, err := mcp.Parse([]byte(question), mcp.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		h.Post(`{`+outer+`,"id":`+m.ID.String()+`,"result":{"action":"decline"}}`, sess)
		besideIn(t, "the log message", e.Next())
		gatewaytest.WantEqual(t, "the result", e.Next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		h.Post(`{`+outer+`,"method":"notifications/roots/list_changed"}`, sess)
		synctest.Wait()
		for _, r := range s.Seen() {
			if r.Method == "notifications/roots/list_changed" {
				besideIn(t, "the notification", r.Body)
			}
		}
		if s.Count("notifications/roots/list_changed") != 1 {
			t.Error("the notification did not arrive")
		}
	})
}

// Additional members cannot repeat those of JSON-RPC, nor anything that another parser
// would read as one of them.
func TestMembersOfTheEnvelopeRepeatNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(false, "x")
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		sess := h.Legacy()
		for _, member := range []string{
			`"id":2`, `"\u0069d":2`, `"ID":2`, `"jsonrpc":"2.0"`, `"method":"ping"`, `"Method":"ping"`, `"params":{}`, `"PARAMS":{}`,
			`"result":{}`, `"error":{"code":1,"message":""}`, `"extra":1,"extra":1`, `"extra":1,"\u0065xtra":1`,
		} {
			call := gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x"}`)
			got := h.Post(strings.Replace(call, `"id"`, member+`,"id"`, 1), sess)
			if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "-32600") {
				t.Errorf("%s: %d %s", member, got.Status, got.Body)
			}
		}
		if n := s.Count("tools/call"); n != 0 {
			t.Errorf("%d calls arrived", n)
		}
	})
}
