// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// confirmPeers are a gateway with a policy that asks about destructive tools, and its server "crm".
type confirmPeers struct {
	*gatewaytest.Gateway
	t      *testing.T
	server *faultyserver.HTTP
	audit  string
	as     gatewaytest.Header // of modern requests
}

// withConfirm calls f in a bubble for each era of a server.
func withConfirm(t *testing.T, change func(*config.Config), f func(p *confirmPeers)) {
	t.Helper()
	for era, isModern := range map[string]bool{"legacy server": false, "modern server": true} {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &faultyserver.HTTP{Modern: isModern, Sessions: !isModern, On: map[string]func(*faultyserver.Exchange){
					"tools/list": gatewaytest.ResultHandler(`{"tools":[
						{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
						{"name":"other","inputSchema":{"type":"object"}},
						{"name":"delete","title":"Delete a customer","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true,"readOnlyHint":true}}]}`),
					"prompts/list":             gatewaytest.ResultHandler(`{"prompts":[{"name":"plan"}]}`),
					"prompts/get":              gatewaytest.ResultHandler(`{"messages":[]}`),
					"resources/list":           gatewaytest.ResultHandler(`{"resources":[{"uri":"note:///a","name":"a"}]}`),
					"resources/templates/list": gatewaytest.ResultHandler(`{"resourceTemplates":[]}`),
					"resources/read":           gatewaytest.ResultHandler(`{"contents":[]}`),
					"completion/complete":      gatewaytest.ResultHandler(`{"completion":{"values":[]}}`),
				}, Capabilities: `{"tools":{},"prompts":{},"resources":{},"completions":{}}`}
				p := &confirmPeers{t: t, server: s, audit: filepath.Join(t.TempDir(), "audit")}
				p.Gateway = gatewaytest.Backends{"crm": s}.Open(t, func(cfg *config.Config) {
					cfg.Audit.File, cfg.Limits.InputWait, cfg.Operators = p.audit, 5*time.Minute, "true"
					cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
						{Name: "sure", Confirm: "item.annotations.destructiveHint == true", On: []string{"crm__*"}},
						{Name: "prompts", Confirm: "true", On: []string{"crm__plan", "note:*"}},
						{Name: "never", Deny: `has(args.all)`, On: []string{"crm__delete"}},
					}}
					if change != nil {
						change(cfg)
					}
				})
				time.Sleep(time.Minute) // the lists are known
				f(p)
			})
		})
	}
}

// sent is the number of calls that the server has received.
func (p *confirmPeers) sent() int {
	return p.server.Count("tools/call") + p.server.Count("prompts/get") + p.server.Count("resources/read")
}

// modern calls as a client of 2026-07-28.
func (p *confirmPeers) modern(method, name, caps, more string) string {
	p.t.Helper()
	field := "name"
	if method == "resources/read" {
		field = "uri"
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"` + field + `":"` + name + `"` + more +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + caps + `}}}`
	return p.Post(body, gatewaytest.Header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}, p.as).Body
}

// retry are the members of a retry with an answer.
func retry(t *testing.T, asked, answer string) string {
	t.Helper()
	var got struct {
		Result struct {
			State string                     `json:"requestState"`
			Asks  map[string]json.RawMessage `json:"inputRequests"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(asked), &got); err != nil || got.Result.State == "" {
		t.Fatalf("nothing is asked: %s", asked)
	}
	responses := make(map[string]json.RawMessage)
	for key := range got.Result.Asks {
		responses[key] = json.RawMessage(answer)
	}
	text, err := json.Marshal(responses)
	if err != nil {
		t.Fatal(err)
	}
	return `,"requestState":"` + got.Result.State + `","inputResponses":` + string(text)
}

const (
	withForm  = `{"elicitation":{"form":{}}}`
	accepted  = `{"action":"accept","content":{}}`
	arguments = `,"arguments":{"id":"\u0037"}`
	theAsk    = `"params":{"message":"Call the tool crm__delete of the server crm?\nTitle: Delete a customer\nArguments: {\"id\":\"7\"}","requestedSchema":{"type":"object","properties":{}}`
)

func (p *confirmPeers) want(what, got string, sent int, has ...string) {
	p.t.Helper()
	for _, text := range has {
		if !strings.Contains(got, text) {
			p.t.Errorf("%s: %s\nhas no %s", what, got, text)
		}
	}
	if n := p.sent(); n != sent {
		p.t.Errorf("%s: the server has received %d calls, want %d", what, n, sent)
	}
}

// A client of 2026-07-28 retries with the answer. Nothing is sent before, and one call after it.
func TestConfirmModernClient(t *testing.T) {
	withConfirm(t, nil, func(p *confirmPeers) {
		t := p.t
		p.want("a tool that is not destructive", p.modern("tools/call", "crm__get", withForm, ""), 1, `"content":[]`)
		p.want("a tool without annotations", p.modern("tools/call", "crm__other", withForm, ""), 2, `"content":[]`)
		p.want("a refused call is not asked about", p.modern("tools/call", "crm__delete", withForm, `,"arguments":{"all":1}`), 2, "policy never does not allow these arguments")

		asked := p.modern("tools/call", "crm__delete", withForm, arguments)
		p.want("the question", asked, 2, `"resultType":"input_required"`, theAsk)
		agreed := retry(t, asked, accepted)
		p.want("other arguments", p.modern("tools/call", "crm__delete", withForm, `,"arguments":{"id":"8"}`+agreed), 2, `requestState is unknown`)
		p.want("another tool", p.modern("tools/call", "crm__get", withForm, arguments+agreed), 2, `requestState is unknown`)
		p.want("the answer", p.modern("tools/call", "crm__delete", withForm, arguments+agreed), 3, `"content":[]`)
		p.want("the answer again", p.modern("tools/call", "crm__delete", withForm, arguments+agreed), 3, `requestState is unknown`)

		for answer, text := range map[string]string{
			`{"action":"decline"}`: "the user has declined this (rule sure of the policy); it was not sent",
			`{"action":"cancel"}`:  "the user has closed the question",
		} {
			asked := p.modern("tools/call", "crm__delete", withForm, arguments)
			p.want(answer, p.modern("tools/call", "crm__delete", withForm, arguments+retry(t, asked, answer)), 3, text, `"isError":true`)
			if c := latest(t, p.G); c.Outcome != "tool_error" || c.Delivery != "not_dispatched" || c.Backend != "" {
				t.Errorf("%s: %+v", answer, c)
			}
		}
		p.want("a client that cannot ask", p.modern("tools/call", "crm__delete", `{"elicitation":{"url":{}}}`, arguments), 3, "this client cannot do that", `"isError":true`)
		p.want("a prompt", p.modern("prompts/get", "crm__plan", `{}`, ""), 3, `"error"`, "(rule prompts of the policy)", "SB_POLICY_CONFIRM", "not_dispatched")
		asked = p.modern("resources/read", "note:///a", withForm, "")
		p.want("a resource", asked, 3, `Read the resource note:///a of the server crm?`)
		p.want("a resource", p.modern("resources/read", "note:///a", withForm, retry(t, asked, accepted)), 4, `"contents":[]`)

		p.G.Close()
		all := readFile(t, p.audit)
		for _, want := range []string{
			`"event":"policy_confirm"`, `"detail":"tool crm__delete"`, `"decision":"confirm","rule":"sure","answer":"accept"`,
			`"decision":"confirm","rule":"sure","answer":"decline"`, `"decision":"confirm","rule":"sure","answer":"cancel"`,
			`"decision":"confirm","rule":"sure","answer":"unavailable"`, `"delivery":"not_dispatched"`,
		} {
			if !strings.Contains(all, want) {
				t.Errorf("no %s in\n%s", want, all)
			}
		}
	})
}

// A client with a session is asked on the stream of the call.
func TestConfirmLegacyClient(t *testing.T) {
	withConfirm(t, nil, func(p *confirmPeers) {
		t := p.t
		sess := p.Legacy()
		call := func(id string) (*gatewaytest.EventStream, string) {
			s := p.Stream(p.Request(t.Context(), http.MethodPost, gatewaytest.LegacyRequest(id, "tools/call", `{"name":"crm__delete"`+arguments+`}`), sess))
			ask := s.Next()
			p.want("the question", ask, 0, `"method":"elicitation/create"`, theAsk)
			var m struct {
				ID json.RawMessage `json:"id"`
			}
			if err := json.Unmarshal([]byte(ask), &m); err != nil {
				t.Fatal(err)
			}
			return s, string(m.ID)
		}
		answer := func(id, rest string) { p.Post(`{"jsonrpc":"2.0","id":`+id+`,`+rest+`}`, sess) }
		for rest, text := range map[string]string{
			`"result":{"action":"decline"}`:                      "the user has declined this",
			`"result":{"action":"Accept"}`:                       "the user has closed the question",
			`"error":{"code":-32601,"message":"no elicitation"}`: "this client cannot do that",
		} {
			s, id := call("1")
			answer(id, rest)
			p.want(rest, s.Next(), 0, text, `"isError":true`)
		}
		s, _ := call("2")
		p.want("no answer", s.Next(), 0, "notifications/cancelled")
		p.want("no answer", s.Next(), 0, "has not answered the question about this in time")

		s, id := call("3")
		p.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`, sess)
		synctest.Wait()
		answer(id, `"result":`+accepted)
		synctest.Wait()
		s.WantSilence(time.Minute)
		if c := latest(t, p.G); c.Outcome != "cancelled" || c.Delivery != "not_dispatched" || p.sent() != 0 {
			t.Errorf("cancelled while it waits: %+v, %d calls", c, p.sent())
		}

		s, id = call("4")
		answer(id, `"result":`+accepted)
		p.want("the answer", s.Next(), 1, `"content":[]`)
		answer(id, `"result":`+accepted)
		synctest.Wait()
		p.want("the answer again", "", 1)

		values := metricsOf(t, p.G)
		for name, n := range map[string]float64{"confirm": 6, "confirm_accept": 1, "confirm_decline": 1, "confirm_cancel": 1, "confirm_unavailable": 1, "confirm_timeout": 1, "confirm_none": 1} {
			if got := values[`signalbox_decisions_total{decision="`+name+`",rule="sure"}`]; got != n {
				t.Errorf("%v decisions %s, want %v", got, name, n)
			}
		}
	})
}

// A client that does not come back leaves nothing behind, and nothing is sent.
func TestConfirmModernClientGoes(t *testing.T) {
	withConfirm(t, nil, func(p *confirmPeers) {
		asked := p.modern("tools/call", "crm__delete", withForm, arguments)
		agreed := retry(p.t, asked, accepted)
		time.Sleep(24 * time.Hour)
		p.want("an answer that is late", p.modern("tools/call", "crm__delete", withForm, arguments+agreed), 0, "requestState is unknown")
	})
}

// A dry run records what would be asked, and asks nothing. A quota comes before the question.
func TestConfirmDryRunAndQuota(t *testing.T) {
	withConfirm(t, func(cfg *config.Config) { cfg.Policy.DryRun = true }, func(p *confirmPeers) {
		p.want("a dry run", p.modern("tools/call", "crm__delete", `{}`, ""), 1, `"content":[]`)
		p.G.Close()
		if all := readFile(p.t, p.audit); !strings.Contains(all, `"event":"policy_dry_run"`) || !strings.Contains(all, `"decision":"dry_run_confirm","rule":"sure"`) {
			p.t.Errorf("the record:\n%s", all)
		}
	})
	withConfirm(t, func(cfg *config.Config) { cfg.Quotas = []config.Quota{perPrincipal(1, time.Hour)} }, func(p *confirmPeers) {
		p.want("within the quota", p.modern("tools/call", "crm__delete", withForm, ""), 0, "input_required")
		p.want("beyond it", p.modern("tools/call", "crm__delete", withForm, ""), 0, "quotas[0]")
	})
}

// A server that asks for input itself is answered without another question, and each such state is
// good for one call.
func TestConfirmBeforeQuestionOfServer(t *testing.T) {
	withConfirm(t, nil, func(p *confirmPeers) {
		if !p.server.Modern {
			return
		}
		var last string
		p.server.On["tools/call"] = func(x *faultyserver.Exchange) {
			last = string(x.Msg.Params.Bytes())
			if strings.Contains(string(x.Msg.Params.Bytes()), `"requestState":"its own"`) {
				x.Result(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
				return
			}
			x.Result(`{"resultType":"input_required","requestState":"its own","inputRequests":{"why":{"method":"elicitation/create","params":{"message":"why?","requestedSchema":{"type":"object","properties":{}}}}}}`)
		}
		ask := p.modern("tools/call", "crm__delete", withForm, arguments)
		second := p.modern("tools/call", "crm__delete", withForm, arguments+retry(p.t, ask, accepted))
		p.want("the question of the server", second, 1, `"why?"`, `"inputRequests":{"why"`)
		if strings.Contains(second, "its own") {
			p.t.Errorf("the state of the server is not sealed: %s", second)
		}
		because := retry(p.t, second, `{"action":"accept","content":{"why":"x"}}`)
		p.want("its answer", p.modern("tools/call", "crm__delete", withForm, arguments+because), 2, `"done"`)
		if !strings.Contains(last, `"inputResponses":{"why":{"action":"accept","content":{"why":"x"}}}`) {
			p.t.Errorf("the server has received %s", last)
		}
		p.want("once more", p.modern("tools/call", "crm__delete", withForm, arguments+because), 2, theAsk)
		p.want("a state that a client has made", p.modern("tools/call", "crm__delete", withForm, arguments+`,"requestState":"its own"`), 2, theAsk)
	})
}
