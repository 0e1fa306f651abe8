// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// secretWord is what the filters of the tests replace.
const secretWord = "sesame"

func redactFilter(with string, on ...string) config.Filter {
	return config.Filter{On: on, In: config.FilterResults, Redact: []config.Redaction{{Match: secretWord, With: with}}}
}

// A result that would be streamed is read whole if a filter is for it, in each cell; that of
// another tool is not.
func TestFilterOfLargeResult(t *testing.T) {
	inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
		synctest.Test(t, func(t *testing.T) {
			text := strings.Repeat("0123456789", largePart/10) + secretWord
			next := make(chan struct{})
			backend := &faultyserver.HTTP{Modern: backendEra == mcp.EraModern, On: map[string]func(*faultyserver.Exchange){
				"tools/list": func(x *faultyserver.Exchange) { x.Result(gatewaytest.ToolList("large", "other")) },
				"tools/call": func(x *faultyserver.Exchange) {
					x.W.Header().Set("Content-Type", "application/json")
					x.Raw(largeHead(backendEra, x.Msg.ID.String()) + text)
					<-next
					x.Raw(text + largeEnd)
				},
			}}
			cfg := config.Config{Servers: []config.Backend{{Name: "b", URL: "http://b/mcp"}}, Filters: []config.Filter{redactFilter("[word]", "b__large")}}
			h := gatewaytest.Open(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, backend)})
			for name, want := range map[string]string{"b__large": strings.ReplaceAll(text, secretWord, "[word]"), "b__other": text} {
				body, headers := gatewaytest.ModernRequest("1", "tools/call", name, "")
				if clientEra == mcp.EraLegacy {
					body, headers = gatewaytest.LegacyRequest("1", "tools/call", `{"name":"`+name+`"}`), h.Legacy()
				}
				if name == "b__large" {
					go func() { synctest.Wait(); next <- struct{}{} }() // ends with the send
				}
				res, err := h.HTTP.Do(h.Request(t.Context(), http.MethodPost, body, headers))
				if err != nil {
					t.Fatal(err)
				}
				if name == "b__other" { // its first part arrives before the second is sent
					if _, err := io.CopyN(io.Discard, res.Body, largePart/2); err != nil {
						t.Fatal(err)
					}
					next <- struct{}{}
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if name == "b__large" && (err != nil || !strings.Contains(string(got), want+want)) {
					t.Errorf("%s: %v, %d bytes", name, err, len(got))
				}
				if hasWord := strings.Contains(string(got), secretWord); hasWord != (name == "b__other") {
					t.Errorf("%s: the word arrives: %t", name, hasWord)
				}
			}
		})
	})
}

// leaky is a backend with the secret word in all results.
type leaky struct{ office }

func (l *leaky) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	res, err := l.office.Serve(ctx, req, caller)
	text := ""
	switch req.Method {
	case "prompts/get":
		text = `{"messages":[{"role":"user","content":{"type":"text","text":"` + secretWord + `"}}]}`
	case "resources/read":
		text = `{"contents":[{"uri":"doc:///open","text":"` + secretWord + `"}]}`
	case "tasks/get":
		text = `{"taskId":"t1","status":"completed","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000,"result":{"content":[{"type":"text","text":"` + secretWord + `"}]}}`
	case "tools/call":
		if !req.Params.Has(mcp.FieldTask) {
			text = `{"content":[{"type":"text","text":"` + secretWord + `"}],"structuredContent":{"` + secretWord + `":"` + secretWord + `"}}`
		}
	}
	if err != nil || text == "" {
		return res, err
	}
	return mcp.NewResult([]byte(text))
}

func withFilters(t *testing.T, filters ...config.Filter) (*signalbox.Gateway, *leaky) {
	t.Helper()
	l := new(leaky)
	g := gatewaytest.New(t, config.Config{Filters: filters}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: l}}})
	return g, l
}

func TestFiltersResults(t *testing.T) {
	g, _ := withFilters(t, redactFilter("*"))
	task := requestOf(t, nil, "tools/call", `{"name":"office__get","arguments":{},"task":{}}`)
	started := answerTo(t, g, task)
	_, id, _ := strings.Cut(started, `"taskId":"`)
	id, _, _ = strings.Cut(id, `"`)
	for _, tc := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"office__get"}`, `{"content":[{"type":"text","text":"*"}],"structuredContent":{"sesame":"*"}}`},
		{"prompts/get", `{"name":"office__open"}`, `{"messages":[{"role":"user","content":{"type":"text","text":"*"}}]}`},
		{"resources/read", `{"uri":"doc:///open"}`, `{"contents":[{"uri":"doc:///open","text":"*"}]}`},
		{"tasks/get", `{"taskId":"` + id + `"}`, `"result":{"content":[{"type":"text","text":"*"}]}}`},
	} {
		if got := answerTo(t, g, requestOf(t, nil, tc.method, tc.params)); !strings.HasSuffix(got, tc.want) {
			t.Errorf("%s: got %s, want %s", tc.method, got, tc.want)
		}
	}
}

// A result that cannot be filtered is not sent, and its call has run.
func TestFilterFails(t *testing.T) {
	l := new(leaky)
	cfg := config.Config{Filters: []config.Filter{redactFilter(strings.Repeat("x", 200))}}
	cfg.Limits.BackendMessage = 199
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: l}}})
	got := answerTo(t, g, requestOf(t, nil, "tools/call", `{"name":"office__get"}`))
	if want := `"text":"backend office: its result could not be filtered, and is withheld; the request was executed"}],"isError":true}`; !strings.HasSuffix(got, want) || strings.Contains(got, secretWord) {
		t.Errorf("a tool: got %s", got)
	}
	_, err := g.Serve(t.Context(), requestOf(t, nil, "prompts/get", `{"name":"office__open"}`), nil)
	if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Outcome != mcp.Completed || f.Reason != code.FilterFailed {
		t.Errorf("a prompt: got %v", err)
	}
}

// A call that a filter refuses is not sent, whatever its method is.
func TestFilterRefuses(t *testing.T) {
	g, l := withFilters(t, config.Filter{In: config.FilterArguments, Refuse: `args.exists(k, args[k] == "` + secretWord + `")`, Say: "the word stays here"})
	l.arrived()
	got := answerTo(t, g, requestOf(t, nil, "tools/call", `{"name":"office__get","arguments":{"a":"`+secretWord+`"}}`))
	if want := `{"resultType":"complete","content":[{"type":"text","text":"filters[0]: the word stays here"}],"isError":true}`; got != want {
		t.Errorf("a tool: got %s", got)
	}
	for method, params := range map[string]string{
		"prompts/get":         `{"name":"office__open","arguments":{"a":"` + secretWord + `"}}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"office__open"},"argument":{"name":"a","value":"` + secretWord + `"}}`,
	} {
		_, err := g.Serve(t.Context(), requestOf(t, nil, method, params), nil)
		if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Outcome != mcp.NotDispatched || f.Reason != code.FilterRefused {
			t.Errorf("%s: got %v", method, err)
		}
	}
	if sent := l.arrived(); len(sent) > 0 {
		t.Errorf("the backend was sent %s", strconv.Quote(strings.Join(sent, "\n")))
	}
	answerTo(t, g, requestOf(t, nil, "tools/call", `{"name":"office__get","arguments":{"a":"b"}}`))
	if len(l.arrived()) != 1 {
		t.Error("a call without the word was not sent")
	}
	items := g.Explain("office__get", "").Items
	if len(items) != 1 {
		t.Errorf("why: %d items", len(items))
	}
	for _, c := range items {
		if step := c.Chain[len(c.Chain)-1].Text; step != "filters[0] may refuse its arguments" {
			t.Errorf("why: %q", step)
		}
	}
}

// A pattern that matches nothing is reported, once all lists are known: with a typing error, a filter would change nothing.
func TestFilterPatternsThatMatchNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := withFilters(t, redactFilter("x", "office__get", "offce__*", "doc:*"), config.Filter{On: []string{"*"}, In: config.FilterResults, Mark: config.MarkUntrusted})
		synctest.Wait()
		if got, want := g.Status().Problems, []string{`filters[0].on[1]: "offce__*" matches no tool, prompt or resource [SB_NAME_UNUSED_RULE]`}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The audit record has the filter that has decided about a call, and whether the call was sent, also of a call within a
// call; it has nothing of the text. A filter that matches nothing is not in it.
func TestFilterInTheRecord(t *testing.T) {
	cfg := config.Config{Filters: []config.Filter{
		{In: config.FilterArguments, Refuse: `has(args.a) && args.a == "` + secretWord + `"`},
		redactFilter("*", "office__get", "doc:*"),
		redactFilter(strings.Repeat("x", 200), "office__set"),
		{On: []string{"office__deploy"}, In: config.FilterResults, Mark: config.MarkUntrusted},
	}}
	cfg.Audit.File = filepath.Join(t.TempDir(), "audit.jsonl")
	cfg.Limits.BackendMessage = 199
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: new(leaky)}}})
	for _, call := range []struct{ method, params string }{
		{"tools/call", `{"name":"office__get"}`},
		{"tools/call", `{"name":"office__get","arguments":{"a":"` + secretWord + `"}}`},
		{"tools/call", `{"name":"office__set"}`},
		{"tools/call", `{"name":"office__deploy"}`},
		{"prompts/get", `{"name":"office__open","arguments":{"a":"` + secretWord + `"}}`},
		{"resources/read", `{"uri":"doc:///open"}`},
		{"tools/call", `{"name":"call_tool","arguments":{"name":"office__get"}}`},
		{"tools/call", `{"name":"call_tool","arguments":{"name":"office__get","arguments":{"a":"` + secretWord + `"}}}`},
	} {
		req := requestOf(t, nil, call.method, call.params)
		req.Profile = config.SearchProfile
		_, _ = g.Serve(t.Context(), req, nil) // the outcome is in the record
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"office__get office ok filtered filters[1]",
		"office__get  tool_error not_dispatched filtered filters[0]",
		"office__set office tool_error filtered filters[2]",
		"office__deploy office ok",
		"office__open  error -32602 not_dispatched filtered filters[0]",
		"doc:///open office ok filtered filters[1]",
		"office__get office ok filtered filters[1]", "call_tool  ok",
		"office__get  tool_error not_dispatched filtered filters[0]", "call_tool  tool_error",
	}
	got := recordOf(t, cfg.Audit.File, "name", "backend", "outcome", "code", "delivery", "decision", "rule")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if all := readFile(t, cfg.Audit.File); strings.Contains(all, secretWord) {
		t.Errorf("the record has the word:\n%s", all)
	}
}

// Invariant C13: arguments that filters and rules have looked at are sent byte for byte, and results that they change keep
// their numbers, members and order. Arguments that cannot be read exactly are not sent.
func TestFiltersKeepTheText(t *testing.T) {
	texts := []string{
		`9007199254740993123`, `99007199254740993123`, `1.10`, `-0`, `1e3`, `0.1`, `true`, `null`, `""`, `"\u0061\/\ud83d\ude00"`, `"` + secretWord + `"`, `{}`, `[ ]`, `{ "b" : 1.0,"a":[1 , 2]}`, `[[1.0],{"n":2e0}]`,
	}
	sent := make(map[bool]int)
	var got string
	l := new(leaky)
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if req.Method != "tools/call" {
			return l.Serve(ctx, req, caller)
		}
		got = string(req.Params.Raw(mcp.FieldArguments))
		return mcp.NewResult([]byte(`{"content":[],"structuredContent":` + got + `}`))
	})
	g := gatewaytest.New(t, config.Config{
		Filters: []config.Filter{
			redactFilter("*"),
			{In: config.FilterArguments, Refuse: `has(args.stop) && args.stop == 1.0`},
			{In: config.FilterArguments, Refuse: `args.exists(k, type(args[k]) == string && args[k].contains("never"))`},
		},
		Policy: config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "any", Deny: `has(args.nothing) && size(args) > 100`}}},
	}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: h}}})
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 13))
		var members []string
		for i := range r.IntN(4) {
			members = append(members, fmt.Sprintf(`"m%d" :%s`, i, texts[r.IntN(len(texts))]))
		}
		arguments := "{ " + strings.Join(members, ",\n") + "}"
		got = ""
		answer := answerTo(t, g, requestOf(t, nil, "tools/call", `{"name":"office__get","arguments":`+arguments+`}`))
		sent[got != ""]++
		if got != "" && got != arguments {
			t.Fatalf("%s is sent as %s", arguments, got)
		}
		if got == "" {
			if !strings.Contains(answer, `"isError":true`) || !strings.Contains(arguments, "99007199254740993123") {
				t.Fatalf("%s is not sent: %s", arguments, answer)
			}
			continue
		}
		_, structured, _ := strings.Cut(answer, `"structuredContent":`)
		compact := strings.NewReplacer(" ", "", "\n", "") // no string has space
		if want := strings.ReplaceAll(arguments, `"`+secretWord+`"`, `"*"`) + "}"; compact.Replace(structured) != compact.Replace(want) {
			t.Fatalf("%s\nis returned as %s", want, structured)
		}
	}
	if sent[true] < 100 || sent[false] < 10 {
		t.Errorf("sent %v", sent)
	}
}

// A call that the policy refuses because of its arguments is recorded as not sent, as one is that a filter refuses.
func TestRefusedCallIsNotDispatched(t *testing.T) {
	g, o := withPolicy(t, officeRules(), nil)
	bob := person("bob", "staff")
	o.arrived()
	answerTo(t, g, requestOf(t, bob, "tools/call", `{"name":"office__deploy","arguments":{"env":"prod"}}`))
	if c := latest(t, g); c.Outcome != "tool_error" || c.Delivery != "not_dispatched" || len(o.arrived()) != 0 {
		t.Errorf("recorded as %s %q", c.Outcome, c.Delivery)
	}
	answerTo(t, g, requestOf(t, bob, "tools/call", `{"name":"office__deploy","arguments":{"env":"test"}}`))
	if c := latest(t, g); c.Outcome != "ok" || c.Delivery != "" || len(o.arrived()) != 1 {
		t.Errorf("recorded as %s %q", c.Outcome, c.Delivery)
	}
}
