// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

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
