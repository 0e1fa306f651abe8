// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// audience is a client that keeps what it hears and answers every question.
type audience struct {
	heard  []string
	answer string // to elicitation/create; "" refuses
}

func (a *audience) Notify(_ context.Context, n *mcp.Notification) error {
	a.heard = append(a.heard, n.Method+" "+string(n.Params.Bytes()))
	return nil
}

func (a *audience) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	if a.answer == "" {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s here", req.Method)
	}
	return mcp.NewResult([]byte(a.answer))
}

func serve(t *testing.T, a *audience, level mcp.LogLevel, method, params string) (string, error) {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.LogLevel = level
	res, err := Backend{}.Serve(t.Context(), req, a)
	if err != nil {
		return "", err
	}
	return string(res.Bytes()), nil
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct{ name, method, params, want string }{
		{"discover", "server/discover", ``, `"name": "signalbox-demo"`},
		{"tools", "tools/list", ``, `{"tools":[{"name":"echo"`},
		{"echo", "tools/call", `{"name":"echo","arguments":{"text":"hi <b>"}}`, `{"content":[{"type":"text","text":"hi <b>"}]}`},
		{"dice", "tools/call", `{"name":"roll_dice","arguments":{"count":3}}`, `"structuredContent":{"dice":[`},
		{"resources", "resources/list", ``, `"uri":"demo://about"`},
		{"templates", "resources/templates/list", ``, `"uriTemplate":"demo://greeting/{language}"`},
		{"read", "resources/read", `{"uri":"demo://about"}`, `# Signalbox`},
		{"read by template", "resources/read", `{"uri":"demo://greeting/german"}`, `"text":"Guten Tag"`},
		{"prompts", "prompts/list", ``, `"name":"greet"`},
		{"prompt", "prompts/get", `{"name":"greet","arguments":{"language":"french"}}`, `Greet me warmly in french.`},
		{"completion", "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"language","value":"S"}}`, `"values":["spanish","swahili"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := serve(t, &audience{}, mcp.LogNone, tt.method, tt.params)
			if err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, %v; want it to contain %s", got, err, tt.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, method, params string
		code                 int64
	}{
		{"method", "tasks/get", ``, mcp.CodeMethodNotFound},
		{"tool", "tools/call", `{"name":"nothing"}`, mcp.CodeInvalidParams},
		{"arguments", "tools/call", `{"name":"echo","arguments":{"text":7}}`, mcp.CodeInvalidParams},
		{"resource", "resources/read", `{"uri":"demo://greeting/klingon"}`, mcp.CodeInvalidParams},
		{"prompt", "prompts/get", `{"name":"nothing"}`, mcp.CodeInvalidParams},
		{"argument of a prompt", "prompts/get", `{"name":"greet"}`, mcp.CodeInvalidParams},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := serve(t, &audience{}, mcp.LogNone, tt.method, tt.params); !errors.Is(err, &mcp.Error{Code: tt.code}) {
				t.Errorf("got %v, want code %d", err, tt.code)
			}
		})
	}
}

func TestCountdownTellsOnlyWhatWasAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name  string
		level mcp.LogLevel
		meta  string
		want  []string
	}{
		{"nothing", mcp.LogNone, ``, nil},
		{"progress", mcp.LogNone, `,"_meta":{"progressToken":"t"}`, []string{
			`notifications/progress {"progressToken":"t","progress":1,"total":2,"message":"1 to go"}`,
			`notifications/progress {"progressToken":"t","progress":2,"total":2,"message":"0 to go"}`,
		}},
		{"log", mcp.LogInfo, ``, []string{
			`notifications/message {"level":"info","logger":"countdown","data":"1 to go"}`,
			`notifications/message {"level":"info","logger":"countdown","data":"0 to go"}`,
		}},
		{"only errors", mcp.LogError, ``, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &audience{}
				if _, err := serve(t, a, tt.level, "tools/call", `{"name":"countdown","arguments":{"from":2}`+tt.meta+`}`); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(a.heard, tt.want) {
					t.Errorf("heard %q, want %q", a.heard, tt.want)
				}
			})
		})
	}
}

func TestCountdownCanBeCancelled(t *testing.T) {
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"countdown","arguments":{"from":60}}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Backend{}).Serve(ctx, req, &audience{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestIntroduce(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"accepted", `{"action":"accept","content":{"name":"Ada"}}`, "Hello, Ada!"},
		{"declined", `{"action":"decline"}`, "The user did not say (decline)."},
		{"cannot be asked", ``, `"isError":true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := serve(t, &audience{answer: tt.answer}, mcp.LogNone, "tools/call", `{"name":"introduce"}`)
			if err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, %v; want it to contain %s", got, err, tt.want)
			}
		})
	}
}
