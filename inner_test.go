// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// through returns a request for call_tool that calls a tool.
func through(t *testing.T, who *mcp.Identity, name, arguments string) *mcp.Request {
	t.Helper()
	req := requestOf(t, who, "tools/call", fmt.Sprintf(`{"name":"call_tool","arguments":{"name":%q,"arguments":%s}}`, name, arguments))
	req.Profile = config.SearchProfile
	return req
}

// Invariant C5: the error of a call within a call stays what it is, even if its sender may no longer call the tool
// when it arrives.
func TestInnerErrorIsNotMilder(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"an error of the backend": {mcp.Errorf(mcp.CodeInvalidParams, "no such city"), `-32602 no such city`},
		"an unknown outcome":      {&mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Message: "it broke"}, `"outcome":"unknown"`},
	} {
		t.Run(name, func(t *testing.T) {
			o := new(office)
			var g *signalbox.Gateway
			deny := config.Config{Policy: config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "none", Deny: "true", On: []string{"office__*"}}}}}
			h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
				if req.Method != "tools/call" {
					return o.Serve(ctx, req, caller)
				}
				if err := g.Reload(ctx, deny); err != nil {
					t.Error(err)
				}
				return nil, tt.err
			})
			g = gatewaytest.New(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: h}}})
			if got := answerTo(t, g, through(t, nil, "office__get", `{}`)); !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got := answerTo(t, g, through(t, nil, "office__get", `{}`)); !strings.Contains(got, `there is no tool \"office__get\"`) {
				t.Errorf("after the change: %s", got)
			}
		})
	}
}

// A call through call_tool is charged once, to the sender and as the tool; a refusal is that of a call of
// the tool itself, and nothing is sent.
func TestInnerCallIsChargedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := withQuotas(t, nil, perPrincipal(3, time.Hour))
		at := g.At(config.SearchProfile)
		for era, headers := range map[string]map[string]gatewaytest.Header{
			"modern": {"ann": gatewaytest.WithToken("ann")}, "legacy": {"bob": at.Legacy(gatewaytest.WithToken("bob"))},
		} {
			for who, hs := range headers {
				call := func(name, arguments string) gatewaytest.Response {
					if era == "modern" {
						return at.PostModern("1", "tools/call", name, `"arguments":`+arguments, hs)
					}
					return at.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"`+name+`","arguments":`+arguments+`}`), hs)
				}
				call("call_tool", `{"name":"b__unknown"}`) // not charged
				for _, arguments := range []string{`{"name":"b__ask"}`, `{"name":"b__read"}`, `{"name":"b__ask"}`} {
					if got := call("call_tool", arguments).Body; !strings.Contains(got, `"result"`) || strings.Contains(got, "isError") {
						t.Errorf("%s %s: %s", who, arguments, got)
					}
				}
				got := call("call_tool", `{"name":"b__ask"}`)
				wantRefused(t, got.Body, "quotas[0]", "20m")
				if direct := call("b__ask", `{}`); got.Status != direct.Status || got.Header.Get("Retry-After") != direct.Header.Get("Retry-After") {
					t.Errorf("status %d, directly %d", got.Status, direct.Status)
				}
				if got := call("find_tool", `{"query":"ask"}`).Body; !strings.Contains(got, `"code":1006`) {
					t.Errorf("find_tool is not charged: %s", got)
				}
			}
		}
		if n := s.Count("tools/call"); n != 6 {
			t.Errorf("%d calls were sent, want 6", n)
		}
	})
}

// The audit record has both calls, the inner one with the id of the outer one as its parent, and with
// the outcome that the outer one has, too.
func TestInnerCallInTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Config{}
		cfg.Audit.File = filepath.Join(t.TempDir(), "audit.jsonl")
		g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "shop", Handler: outcomeServer()}}})
		for _, name := range []string{"buy", "broken", "barred", "far", "odd"} {
			req := request(t, "tools/call", `{"name":"call_tool","arguments":{"name":"shop__`+name+`"}}`)
			req.Profile = config.SearchProfile
			_, _ = g.Serve(t.Context(), req, nil) // the outcome is in the record
		}
		calls := g.Calls(signalbox.CallFilter{}).Calls
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"shop__buy shop ok", "call_tool  ok 1 ok",
			"shop__broken shop tool_error", "call_tool  tool_error 1 tool_error",
			"shop__barred shop error -32099", "call_tool  error -32099 1 error",
			"shop__far shop failed 1001 not_dispatched", "call_tool  failed 1001 not_dispatched 1 failed not_dispatched",
			"shop__odd shop failed -32603 unknown", "call_tool  failed -32603 unknown 1 failed unknown",
		}
		if diff := cmp.Diff(want, recordOf(t, cfg.Audit.File, "name", "backend", "outcome", "code", "delivery", "innerCalls", "innerOutcome", "innerDelivery")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		ids, parents := recordOf(t, cfg.Audit.File, "call"), recordOf(t, cfg.Audit.File, "parent")
		for i := 0; i+1 < len(ids); i += 2 {
			if parents[i] != ids[i+1] || parents[i+1] != "" {
				t.Errorf("call %s has the parent %q, and %s has %q", ids[i], parents[i], ids[i+1], parents[i+1])
			}
		}
		for _, c := range calls {
			id, _ := mcp.ParseCallID(c.ID)
			if whole, ok := g.Call(id); c.Name == "call_tool" && (!ok || len(whole.Inner) != 1 || whole.Inner[0].Parent != c.ID || whole.InnerCalls != 1 || whole.InnerOutcome != c.Outcome || whole.InnerDelivery != c.Delivery) {
				t.Errorf("call %s (%v): %+v", c.ID, ok, whole)
			}
		}
	})
}

// A call within a call is counted once at its backend, and so is its failure; the outer one has no backend.
func TestInnerCallIsCountedOnce(t *testing.T) {
	o := new(office)
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if name, _ := req.Params.Text(mcp.FieldName); name == "set" {
			return nil, &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: "office", Message: "it is away"}
		}
		return o.Serve(ctx, req, caller)
	})
	g := gatewaytest.New(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: h}}})
	for _, name := range []string{"office__get", "office__set"} {
		answerTo(t, g, through(t, nil, name, `{}`))
	}
	got := metricsOf(t, g)
	for name, want := range map[string]float64{
		`mcp_server_operation_duration_seconds_count{backend="office",error_type="",mcp_method_name="tools/call"}`:     1,
		`mcp_server_operation_duration_seconds_count{backend="office",error_type="1001",mcp_method_name="tools/call"}`: 1,
		`mcp_server_operation_duration_seconds_count{backend="",error_type="",mcp_method_name="tools/call"}`:           1,
		`mcp_server_operation_duration_seconds_count{backend="",error_type="1001",mcp_method_name="tools/call"}`:       1,
		`signalbox_backend_failures_total{backend="office",code="1001"}`:                                               1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// A server that needs its user's sign-in asks for it through call_tool, too, and the call goes on.
func TestSignInWithinACall(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	g.at = config.SearchProfile
	retried(t, g.Gateway, "down")
	if found := g.call("", "tools/call", "find_tool", `{}`, `,"arguments":{"query":"crm sign in"}`); !strings.Contains(found, "crm__sign_in") {
		t.Fatalf("found %s", found)
	}
	const call = `,"arguments":{"name":"crm__sign_in"}`
	res := g.call("", "tools/call", "call_tool", withURL, call)
	page, state := pageURL.FindString(res), stateOf.FindStringSubmatch(res)
	key, _, _ := strings.Cut(strings.TrimPrefix(res[max(0, strings.Index(res, `"inputRequests":{"`)):], `"inputRequests":{"`), `"`)
	if page == "" || len(state) != 2 {
		t.Fatalf("result %s", res)
	}
	if status, html := newBrowser(t).post(page, g.edge.URL, nil); status != 200 || !strings.Contains(html, "You are signed in to crm") {
		t.Fatalf("status %d\n%s", status, html)
	}
	res = g.call("", "tools/call", "call_tool", withURL, call+`,"requestState":"`+state[1]+`","inputResponses":{"`+key+`":{"action":"accept"}}`)
	if !strings.Contains(res, "You are signed in") {
		t.Fatalf("result %s", res)
	}
	if res := g.call("", "tools/call", "call_tool", `{}`, `,"arguments":{"name":"crm__find"}`); !strings.Contains(res, `"content":[]`) {
		t.Fatalf("result %s", res)
	}
}
