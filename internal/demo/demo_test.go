// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// audience is a client that records notifications and answers every question.
type audience struct {
	heard  []string
	asked  []string
	answer string // to elicitation/create; "" means an error
	deaf   error  // returned by Notify
}

func (a *audience) Notify(_ context.Context, n *mcp.Notification) error {
	a.heard = append(a.heard, n.Method+" "+string(n.Params.Bytes()))
	return a.deaf
}

func (a *audience) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return a.ask(ctx, req) }, nil
}

func (*audience) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (a *audience) ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	a.asked = append(a.asked, req.Method+" "+string(req.Params.Bytes()))
	if a.answer == "" {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s here", req.Method)
	}
	return mcp.NewResult([]byte(a.answer))
}

func request(t testing.TB, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func serve(t testing.TB, a *audience, level mcp.LogLevel, method, params string) (string, error) {
	t.Helper()
	req := request(t, method, params)
	req.LogLevel = level
	res, err := New().Serve(t.Context(), req, a)
	if err != nil {
		return "", err
	}
	return string(res.Bytes()), nil
}

// answer serves a request that must succeed.
func answer(t testing.TB, method, params string) string {
	t.Helper()
	got, err := serve(t, &audience{}, mcp.LogNone, method, params)
	if err != nil {
		t.Fatalf("%s %s: %v", method, params, err)
	}
	return got
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct{ name, method, params, want string }{
		{"discover", "server/discover", ``, `"name":"signalbox-demo"`},
		{"tools", "tools/list", ``, `{"tools":[{"name":"echo"`},
		{"resources", "resources/list", ``, `"uri":"demo://about"`},
		{"templates", "resources/templates/list", ``, `"uriTemplate":"demo://greeting/{language}"`},
		{"prompts", "prompts/list", ``, `"name":"greet"`},

		{"echo", "tools/call", `{"name":"echo","arguments":{"text":"hi <b>"}}`, `{"content":[{"type":"text","text":"hi <b>"}]}`},
		{"echo of nothing", "tools/call", `{"name":"echo"}`, `{"content":[{"type":"text","text":""}]}`},
		{"echo of what has to be escaped", "tools/call", `{"name":"echo","arguments":{"text":"\u0000\"\\\n日"}}`, `"text":"\u0000\"\\\n日"`},
		{"members that are nobody's", "tools/call", `{"name":"echo","arguments":{"text":"a","other":1}}`, `"text":"a"`},

		{"read", "resources/read", `{"uri":"demo://about"}`, `# Signalbox`},
		{"read JSON", "resources/read", `{"uri":"demo://languages"}`, `"mimeType":"application/json","text":"[\"arabic\",\"english\"`},
		{"read by template", "resources/read", `{"uri":"demo://greeting/german"}`, `{"contents":[{"uri":"demo://greeting/german","mimeType":"text/plain","text":"Guten Tag"}]}`},

		{"prompt", "prompts/get", `{"name":"greet","arguments":{"language":"french"}}`,
			`{"role":"user","content":{"type":"text","text":"Greet me warmly in french."}},` +
				`{"role":"user","content":{"type":"resource","resource":{"uri":"demo://greeting/french","mimeType":"text/plain","text":"Bonjour"}}}`},
		{"prompt with a name", "prompts/get", `{"name":"greet","arguments":{"language":"french","name":"Ada"}}`, `"text":"Greet Ada warmly in french."`},
		{"prompt in a language without a resource", "prompts/get", `{"name":"greet","arguments":{"language":"klingon"}}`,
			`{"messages":[{"role":"user","content":{"type":"text","text":"Greet me warmly in klingon."}}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := answer(t, tt.method, tt.params); !strings.Contains(got, tt.want) {
				t.Errorf("got %s; want it to contain %s", got, tt.want)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	const (
		prompt   = `"ref":{"type":"ref/prompt","name":"greet"}`
		template = `"ref":{"type":"ref/resource","uri":"demo://greeting/{language}"}`
	)
	for _, tt := range []struct{ name, ref, argument, want string }{
		{"of a prompt", prompt, `{"name":"language","value":"s"}`, `"values":["spanish","swahili"]`},
		{"of a template", template, `{"name":"language","value":"s"}`, `"values":["spanish","swahili"]`},
		{"letter case", prompt, `{"name":"language","value":"SW"}`, `"values":["swahili"]`},
		{"how many", template, `{"name":"language","value":"s"}`, `"hasMore":false,"total":2`},
		{"from nothing", template, `{"name":"language","value":""}`, `"total":8`},
		{"of nothing", prompt, `{"name":"language","value":"x"}`, `"total":0,"values":[]`},
		{"an argument without proposals", prompt, `{"name":"name","value":"s"}`, `"values":[]`},
		{"the whole word", prompt, `{"name":"language","value":"german"}`, `"values":["german"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := answer(t, "completion/complete", `{`+tt.ref+`,"argument":`+tt.argument+`}`)
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s; want it to contain %s", got, tt.want)
			}
		})
	}
}

// A client's mistake is an error of the protocol.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, method, params string
		code                 int64
		want                 string
	}{
		{"method", "tasks/get", ``, mcp.CodeMethodNotFound, `unknown method "tasks/get"`},
		{"tool", "tools/call", `{"name":"nothing"}`, mcp.CodeInvalidParams, `unknown tool: "nothing"`},
		{"no tool", "tools/call", `{}`, mcp.CodeInvalidParams, `unknown tool: ""`},
		{"tool that is none", "tools/call", `{"name":7}`, mcp.CodeInvalidParams, `unknown tool: ""`},
		{"resource", "resources/read", `{"uri":"demo://greeting/klingon"}`, mcp.CodeInvalidParams, `resource not found`},
		{"the template itself", "resources/read", `{"uri":"demo://greeting/{language}"}`, mcp.CodeInvalidParams, `resource not found`},
		{"above", "resources/read", `{"uri":"demo://greeting/../about"}`, mcp.CodeInvalidParams, `resource not found`},
		{"another spelling", "resources/read", `{"uri":"DEMO://about"}`, mcp.CodeInvalidParams, `resource not found`},
		{"prompt", "prompts/get", `{"name":"nothing"}`, mcp.CodeInvalidParams, `unknown prompt: "nothing"`},
		{"argument of a prompt", "prompts/get", `{"name":"greet"}`, mcp.CodeInvalidParams, `prompt greet: the argument "language" is missing`},
		{"argument of a prompt that is empty", "prompts/get", `{"name":"greet","arguments":{"language":""}}`, mcp.CodeInvalidParams, `prompt greet: the argument "language" is missing`},
		{"argument of another type", "prompts/get", `{"name":"greet","arguments":{"language":7}}`, mcp.CodeInvalidParams,
			`prompt greet: the arguments are invalid: /language does not have the type required by the schema`},
		{"arguments that are none", "prompts/get", `{"name":"greet","arguments":[]}`, mcp.CodeInvalidParams,
			`prompt greet: the arguments are invalid: they do not match the schema`},
		{"nothing to complete", "completion/complete", `{"argument":{"name":"language","value":""}}`, mcp.CodeInvalidParams, `unknown reference: nothing to complete`},
		{"another prompt", "completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"language","value":""}}`, mcp.CodeInvalidParams, `unknown reference: nothing to complete`},
		{"a resource that is no template", "completion/complete", `{"ref":{"type":"ref/resource","uri":"demo://about"},"argument":{"name":"language","value":""}}`, mcp.CodeInvalidParams, `unknown reference: nothing to complete`},
		{"a reference of another kind", "completion/complete", `{"ref":{"type":"ref/tool","name":"greet"},"argument":{"name":"language","value":""}}`, mcp.CodeInvalidParams, `unknown reference: nothing to complete`},
		{"an argument that is none", "completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"language","value":1}}`, mcp.CodeInvalidParams,
			`the argument is invalid: /value does not have the type required by the schema`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := serve(t, &audience{}, mcp.LogNone, tt.method, tt.params)
			e, ok := errors.AsType[*mcp.Error](err)
			if !ok || e.Code != tt.code || e.Message != tt.want {
				t.Errorf("got %v, want %q with code %d", err, tt.want, tt.code)
			}
		})
	}
}

// "Resource not found" names the resource, so that a client that reads several at once can
// distinguish them (2026-07-28, server/resources, "Error Handling").
func TestNotFoundNamesTheResource(t *testing.T) {
	_, err := serve(t, &audience{}, mcp.LogNone, "resources/read", `{"uri":"demo://\"quoted\""}`)
	e, ok := errors.AsType[*mcp.Error](err)
	if want := `{"uri":"demo://\"quoted\""}`; !ok || string(e.Data) != want {
		t.Errorf("got %v, want data %s", err, want)
	}
}

// The same request has the same response, byte for byte, so that different paths to the demo
// can be compared.
func TestAnswersAreStable(t *testing.T) {
	for _, r := range [][2]string{
		{"server/discover", ``}, {"tools/list", ``}, {"resources/list", ``}, {"resources/templates/list", ``}, {"prompts/list", ``},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"language","value":""}}`},
		{"prompts/get", `{"name":"greet","arguments":{"language":"german"}}`},
	} {
		first := answer(t, r[0], r[1])
		for range 20 {
			if again := answer(t, r[0], r[1]); again != first {
				t.Fatalf("%s: %s, and then %s", r[0], first, again)
			}
		}
	}
}
