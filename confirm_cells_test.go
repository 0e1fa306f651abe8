// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// askedCall is a call of crm__delete that waits for its user.
type askedCall struct {
	answer func(rest string) string // answers the question, and returns the answer to the call
	again  func(rest string) string // answers once more, after the call has ended
}

// inSession makes a call of a client with a session.
func (p *confirmPeers) inSession(sess gatewaytest.Header, id string) askedCall {
	p.t.Helper()
	s := p.Stream(p.Request(p.t.Context(), http.MethodPost, gatewaytest.LegacyRequest(id, "tools/call", `{"name":"crm__delete"`+arguments+`}`), sess))
	var ask struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal([]byte(s.Next()), &ask); err != nil || ask.Method != "elicitation/create" {
		p.t.Fatalf("asked %+v, %v", ask, err)
	}
	send := func(rest string) {
		p.Post(`{"jsonrpc":"2.0","id":`+string(ask.ID)+`,"result":`+rest+`}`, sess)
	}
	return askedCall{
		func(rest string) string { send(rest); return s.Next() },
		func(rest string) string { send(rest); synctest.Wait(); return "" },
	}
}

// withoutSession makes a call of a client of 2026-07-28.
func (p *confirmPeers) withoutSession() askedCall {
	p.t.Helper()
	asked := p.modern("tools/call", "crm__delete", withForm, arguments)
	send := func(rest string) string {
		return p.modern("tools/call", "crm__delete", withForm, arguments+retry(p.t, asked, rest))
	}
	return askedCall{send, send}
}

// Row 21: in each cell a call is asked about once, and sent once or not at all: also if its server breaks the
// connection after it has received it, or refuses it, and if the answer comes once more or the call is made again.
func TestConfirmedCallIsSentOnce(t *testing.T) {
	ends := map[string]struct {
		serve func(*faultyserver.Exchange)
		want  string
	}{
		"a result": {gatewaytest.ResultHandler(`{"content":[]}`), `"content":[]`},
		"an error": {func(x *faultyserver.Exchange) { x.Error(-32602, "no such id") }, "no such id"},
		"no connection": {func(x *faultyserver.Exchange) {
			x.Begin()
			x.Abort()
		}, `"outcome":"unknown"`},
	}
	for client, call := range map[string]func(*confirmPeers) func() askedCall{
		"session": func(p *confirmPeers) func() askedCall {
			sess := p.Legacy()
			return func() askedCall { return p.inSession(sess, "1") }
		},
		"modern": func(p *confirmPeers) func() askedCall { return p.withoutSession },
	} {
		for name, end := range ends {
			t.Run(client+", "+name, func(t *testing.T) {
				withConfirm(t, nil, func(p *confirmPeers) {
					ask := call(p)
					p.server.On["tools/call"] = end.serve
					first := ask()
					p.want("before the answer", "", 0)
					p.want("the answer", first.answer(accepted), 1, end.want)
					p.want("the answer again", first.again(accepted), 1)
					p.want("declined", ask().answer(`{"action":"decline"}`), 1, "the user has declined this")
					p.want("another call", ask().answer(accepted), 2, end.want)
				})
			})
		}
	}
}

// Two calls with the same arguments wait at once, each for its own answer; and of two equal answers that arrive at once one
// counts.
func TestConfirmAtOnce(t *testing.T) {
	withConfirm(t, nil, func(p *confirmPeers) {
		sess := p.Legacy()
		session, other := p.inSession(sess, "1"), p.inSession(sess, "2")
		modern := p.modern("tools/call", "crm__delete", withForm, arguments)
		p.want("three wait", "", 0)
		p.want("the second", other.answer(`{"action":"decline"}`), 0, "the user has declined this")

		const times = 8
		agreed := retry(p.t, modern, accepted)
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crm__delete"` + arguments + agreed +
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + withForm + `}}}`
		var answers []<-chan gatewaytest.Response
		for range times {
			answers = append(answers, p.Async(body, gatewaytest.Header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "crm__delete"}))
		}
		done := 0
		for _, a := range answers {
			if got := (<-a).Body; strings.Contains(got, `"content":[]`) {
				done++
			} else if !strings.Contains(got, "requestState is unknown") {
				p.t.Errorf("answered %s", got)
			}
		}
		if done != 1 {
			p.t.Errorf("%d of %d answers count", done, times)
		}
		p.want("the third", "", 1)
		p.want("the first", session.answer(accepted), 2, `"content":[]`)
	})
}

// The same is so for a call that goes on after another question: the gateway keeps the agreement.
func TestConfirmGoesOnOnce(t *testing.T) {
	withConfirm(t, nil, func(p *confirmPeers) {
		if !p.server.Modern {
			return
		}
		p.server.On["tools/call"] = func(x *faultyserver.Exchange) {
			if strings.Contains(string(x.Msg.Params.Bytes()), `"inputResponses"`) {
				x.Result(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
				return
			}
			x.Result(`{"resultType":"input_required","inputRequests":{"why":{"method":"elicitation/create","params":{"message":"why?","requestedSchema":{"type":"object","properties":{}}}}}}`)
		}
		ask := p.modern("tools/call", "crm__delete", withForm, arguments)
		second := p.modern("tools/call", "crm__delete", withForm, arguments+retry(p.t, ask, accepted))
		p.want("the question of the server", second, 1, `"why?"`)
		because := retry(p.t, second, `{"action":"accept","content":{"why":"x"}}`)
		results := make(chan string, 8)
		for range cap(results) {
			go func() { results <- p.modern("tools/call", "crm__delete", withForm, arguments+because) }() // ends with the answer
		}
		done, asked := 0, 0
		for range cap(results) {
			switch got := <-results; {
			case strings.Contains(got, `"done"`):
				done++
			case strings.Contains(got, theAsk):
				asked++
			default:
				p.t.Errorf("answered %s", got)
			}
		}
		if done != 1 || asked != cap(results)-1 || p.sent() != 2 {
			p.t.Errorf("%d are done, %d asked, %d sent", done, asked, p.sent())
		}
	})
}

// A quota counts the calls that are asked about, once each, also if the user declines and if the call goes on; what is
// beyond it is not asked about, and not sent.
func TestConfirmAndQuotasInEachCell(t *testing.T) {
	quota := func(cfg *config.Config) { cfg.Quotas = []config.Quota{perPrincipal(2, time.Hour)} }
	for client, call := range map[string]func(*confirmPeers) func() askedCall{
		"session": func(p *confirmPeers) func() askedCall {
			sess := p.Legacy()
			return func() askedCall { return p.inSession(sess, "1") }
		},
		"modern": func(p *confirmPeers) func() askedCall { return p.withoutSession },
	} {
		t.Run(client, func(t *testing.T) {
			withConfirm(t, quota, func(p *confirmPeers) {
				ask := call(p)
				p.want("the first", ask().answer(`{"action":"decline"}`), 0, "the user has declined this")
				p.want("the second", ask().answer(accepted), 1, `"content":[]`)
				got := p.modern("tools/call", "crm__delete", withForm, arguments)
				if client == "session" {
					got = p.Post(gatewaytest.LegacyRequest("9", "tools/call", `{"name":"crm__delete"`+arguments+`}`), p.Legacy()).Body
				}
				p.want("beyond the quota", got, 1, "quotas[0]")
			})
		})
	}
}

// What a user has agreed to goes on without another question, also with no limits.inputWait.
func TestConfirmGoesOnWithoutLimit(t *testing.T) {
	withConfirm(t, func(cfg *config.Config) { cfg.Limits.InputWait = -1 }, func(p *confirmPeers) {
		if !p.server.Modern {
			return
		}
		p.server.On["tools/call"] = func(x *faultyserver.Exchange) {
			if strings.Contains(string(x.Msg.Params.Bytes()), `"requestState":"its own"`) {
				x.Result(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
				return
			}
			x.Result(`{"resultType":"input_required","requestState":"its own","inputRequests":{"why":{"method":"elicitation/create","params":{"message":"why?","requestedSchema":{"type":"object","properties":{}}}}}}`)
		}
		asked := p.modern("tools/call", "crm__delete", withForm, arguments)
		second := p.modern("tools/call", "crm__delete", withForm, arguments+retry(p.t, asked, accepted))
		time.Sleep(time.Minute)
		p.want("its answer", p.modern("tools/call", "crm__delete", withForm, arguments+retry(p.t, second, accepted)), 2, `"done"`)
	})
}

// agrees is a Caller with a user that agrees to everything.
type agrees struct{}

func (agrees) Notify(context.Context, *mcp.Notification) error { return nil }

func (agrees) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return mcp.NewResult([]byte(accepted)) }, nil
}

func (agrees) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// A Handler in this process may return no result, also for a call that a user has agreed to.
func TestConfirmWithoutAResult(t *testing.T) {
	o := new(office)
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if req.Method == "tools/call" {
			return nil, nil
		}
		return o.Serve(ctx, req, caller)
	})
	cfg := config.Config{Policy: config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "sure", Confirm: "true", On: []string{"office__*"}}}}}
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: h}}})
	req := requestOf(t, nil, "tools/call", `{"name":"office__get"}`)
	req.TakesInputRequired = true
	if res, err := g.Serve(t.Context(), req, agrees{}); res != nil || err != nil {
		t.Errorf("got %v, %v", res, err)
	}
}
