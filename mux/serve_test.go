// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The result of a tool's function is the result for its client.
func TestToolResults(t *testing.T) {
	structured := Say("x")
	structured.Structured, structured.Meta = map[string]int{"b": 2, "a": 1}, JSON(`{"k":1e3}`)
	for _, tt := range []struct {
		name string
		res  *Result
		want string
	}{
		{"nothing", nil, `{"content":[]}`},
		{"a text", Say("%d%%", 7), `{"content":[{"type":"text","text":"7%"}]}`},
		{"a text that is no UTF-8", Say("a\xffb"), `{"content":[{"type":"text","text":"a` + "\uFFFD" + `b"}]}`},
		{"blocks", Show(Image("image/png", []byte{1}), Audio("audio/wav", []byte{2}), Link("x:y", "n")),
			`{"content":[{"type":"image","data":"AQ==","mimeType":"image/png"},{"type":"audio","data":"Ag==","mimeType":"audio/wav"},{"type":"resource_link","uri":"x:y","name":"n"}]}`},
		{"resources", Show(Embed(TextContents("x:y", "text/plain", "")), Embed(BlobContents("x:z", "a/b", nil)).With("annotations", `{"priority":1.0}`)),
			`{"content":[{"type":"resource","resource":{"uri":"x:y","mimeType":"text/plain","text":""}},` +
				`{"type":"resource","resource":{"uri":"x:z","mimeType":"a/b","blob":""},"annotations":{"priority":1.0}}]}`},
		{"a structure that is empty", Structured([]int{}), `{"content":[{"type":"text","text":"[]"}],"structuredContent":[]}`},
		{"a structure with nothing beside it", &Result{Structured: 7, Content: []Content{}}, `{"content":[],"structuredContent":7}`},
		{"a structure", structured, `{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1,"b":2},"_meta":{"k":1e3}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := doing(func(context.Context, *Call) (*Result, error) { return tt.res, nil })
			equal(t, "result", answer(t, m, "tools/call", `{"name":"x"}`), tt.want)
		})
	}
}

// An error of Errorf goes to the model; one of the protocol, or an unexpected one, is
// the request's.
func TestToolErrors(t *testing.T) {
	m := doing(func(context.Context, *Call) (*Result, error) { return nil, Errorf("Not %q.", "so") })
	equal(t, "complaint", answer(t, m, "tools/call", `{"name":"x"}`), `{"content":[{"type":"text","text":"Not \"so\"."}],"isError":true}`)
	for _, want := range []error{mcp.Errorf(-5, "mine"), errors.New("secret"), context.Canceled, &mcp.Fault{Message: "f"}} {
		m := doing(func(context.Context, *Call) (*Result, error) { return nil, want })
		if got, err := serve(t, m, request(t, "tools/call", `{"name":"x"}`)); !errors.Is(err, want) {
			t.Errorf("got %s, %v; want %v", got, err, want)
		}
	}
}

func TestBind(t *testing.T) {
	m := doing(func(_ context.Context, call *Call) (*Result, error) {
		in := struct {
			N int `json:"n"`
		}{7}
		if err := call.Bind(&in); err != nil {
			return nil, err
		}
		return Say("%d", in.N), nil
	})
	for arguments, want := range map[string]string{
		``:                           `"text":"7"`,
		`,"arguments":{}`:            `"text":"7"`,
		`,"arguments":{"n":3}`:       `"text":"3"`,
		`,"arguments":{"N":3}`:       `"text":"7"`,
		`,"arguments":{"n":"3"}`:     `"text":"The arguments are invalid: /n does not have the type required by the schema."}],"isError":true`,
		`,"arguments":[]`:            `"text":"The arguments are invalid: they do not match the schema."}],"isError":true`,
		`,"arguments":{"n":1,"n":2}`: `"isError":true`,
	} {
		if got := answer(t, m, "tools/call", `{"name":"x"`+arguments+`}`); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
}

// Arguments in headers must match those in the body.
func TestParamHeaders(t *testing.T) {
	tool := hello("x")
	tool.InputSchema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`
	m := New(tool)
	with := func(headers map[string][]string) *mcp.Request {
		req := request(t, "tools/call", `{"name":"x","arguments":{"region":"eu"}}`)
		req.ParamHeaders = headers
		return req
	}
	for _, headers := range []map[string][]string{nil, {"Mcp-Param-Region": {"eu"}}, {"Mcp-Param-Region": {"=?base64?ZXU=?="}}} {
		if got, err := serve(t, m, with(headers)); err != nil {
			t.Errorf("%v: %s, %v", headers, got, err)
		}
	}
	for _, headers := range []map[string][]string{{}, {"Mcp-Param-Region": {"us"}}, {"Mcp-Param-Region": {"=?base64?ZX?="}}} {
		refused(t, m, with(headers), mcp.CodeHeaderMismatch, "")
	}
}

// Progress and log messages are sent only if the client asked for them.
func TestReports(t *testing.T) {
	m := doing(func(ctx context.Context, call *Call) (*Result, error) {
		return nil, errors.Join(
			call.Progress(ctx, 0, 0, ""), call.Progress(ctx, 0.5, 2, "a \"word\""),
			call.Log(ctx, mcp.LogDebug, "", "quiet"), call.Log(ctx, mcp.LogError, "l", map[string]any{"n": 1}),
			call.Log(ctx, mcp.LogError, "", func() {}))
	})
	for _, tt := range []struct {
		level mcp.LogLevel
		meta  string
		want  []string
		fails bool
	}{
		{level: mcp.LogNone},
		{level: mcp.LogNone, meta: `,"_meta":{"progressToken":9007199254740993}`, want: []string{
			`progress {"progressToken":9007199254740993,"progress":0}`, `progress {"progressToken":9007199254740993,"progress":0.5,"total":2,"message":"a \"word\""}`}},
		{level: mcp.LogWarning, want: []string{`message {"level":"error","logger":"l","data":{"n":1}}`}, fails: true},
		{level: mcp.LogUnset, want: []string{`message {"level":"debug","data":"quiet"}`, `message {"level":"error","logger":"l","data":{"n":1}}`}, fails: true},
	} {
		req, a := request(t, "tools/call", `{"name":"x"`+tt.meta+`}`), &recorder{}
		req.LogLevel = tt.level
		if _, err := m.Serve(t.Context(), req, a); (err != nil) != tt.fails {
			t.Errorf("%v: %v", tt.level, err)
		}
		heard(t, a.notifications(), tt.want...)
	}
}

func TestPrompts(t *testing.T) {
	var got map[string]string
	m := New(verse("v"), Prompt{Name: "p", Arguments: []Argument{{Name: "a", Required: true}, {Name: "b"}}, Get: func(_ context.Context, call *Call) ([]Message, error) {
		got = nil
		if err := call.Bind(&got); err != nil {
			return nil, err
		}
		return nil, Errorf("no %s today", got["a"])
	}})
	equal(t, "messages", answer(t, m, "prompts/get", `{"name":"v"}`),
		`{"messages":[{"role":"user","content":{"type":"text","text":"Roses are red"}},{"role":"assistant","content":{"type":"text","text":"violets are blue"}}]}`)
	for params, want := range map[string]string{
		`{"name":"x"}`: `unknown prompt: "x"`, `{}`: `unknown prompt: ""`, `{"name":1}`: `unknown prompt: ""`,
		`{"name":"p"}`:                                  `prompt p: the argument "a" is missing`,
		`{"name":"p","arguments":{"b":"1"}}`:            `prompt p: the argument "a" is missing`,
		`{"name":"p","arguments":{"a":1}}`:              `prompt p: the arguments are invalid: /a does not have the type required by the schema`,
		`{"name":"p","arguments":{"a":"cake","c":"d"}}`: `prompt p: no cake today`,
	} {
		refused(t, m, request(t, "prompts/get", params), mcp.CodeInvalidParams, want)
	}
	if got["c"] != "d" {
		t.Errorf("the prompt got %v", got)
	}
}

func TestResources(t *testing.T) {
	slow := note("x:slow")
	slow.TTL = time.Minute
	empty := Resource{URI: "x:empty", Name: "e", Read: func(context.Context, *Call) ([]Contents, error) { return nil, nil }}
	m := New(note("x:y"), slow, empty, Template{URI: "x:{+any}", Name: "t", Read: func(_ context.Context, call *Call) ([]Contents, error) {
		if call.Var("any") == "no" {
			return nil, NotFound(call.URI())
		}
		return []Contents{BlobContents(call.URI(), "a/b", []byte(call.Var("any"))).With("_meta", `{}`)}, nil
	}})
	equal(t, "resource", answer(t, m, "resources/read", `{"uri":"x:y"}`), `{"contents":[{"uri":"x:y","mimeType":"text/plain","text":"noted"}]}`)
	equal(t, "kept", answer(t, m, "resources/read", `{"uri":"x:slow"}`),
		`{"contents":[{"uri":"x:slow","mimeType":"text/plain","text":"noted"}],"ttlMs":60000,"cacheScope":"private"}`)
	equal(t, "template", answer(t, m, "resources/read", `{"uri":"x:a/b"}`), `{"contents":[{"uri":"x:a/b","mimeType":"a/b","blob":"YS9i","_meta":{}}]}`)
	for _, uri := range []string{"x:no", "y:y", "", "x:", "x:empty"} {
		req := request(t, "resources/read", `{"uri":"`+uri+`"}`)
		refused(t, m, req, mcp.CodeInvalidParams, "resource not found")
		_, err := serve(t, m, req)
		if e, ok := errors.AsType[*mcp.Error](err); !ok || string(e.Data) != `{"uri":"`+uri+`"}` {
			t.Errorf("%q: %v does not name the resource", uri, err)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct{ template, uri, want string }{
		{"x:y", "x:y", "[]"}, {"x:y", "x:yz", ""},
		{"x:{a}", "x:1", "[a=1]"}, {"x:{a}", "x:1/2", ""}, {"x:{a}", "x:", ""}, {"x:{a}", "y:1", ""}, {"x:{a}", "x:{a}", ""},
		{"x:{a}/data", "x:1/data", "[a=1]"}, {"x:{a}/data", "x:1/dat", ""}, {"x:{a}/data", "x:/data", ""}, {"x:{a}/data", "x:1/data/data", ""},
		{"x:{a}/{b}", "x:1/2", "[a=1 b=2]"}, {"x:{a}/{b}", "x:1/2/3", ""}, {"x:{a}/{+b}", "x:1/2/3", "[a=1 b=2/3]"},
		{"x:{a}", "x:%41%2F", "[a=A/]"}, {"x:{a}", "x:%4", ""}, {"x:{+a}-{b}", "x:1/2-3", "[a=1/2 b=3]"},
	} {
		p, err := parsePattern(tt.template)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if vars, ok := p.vars(tt.uri); ok {
			var all []string
			for name, value := range vars {
				all = append(all, name+"="+value)
			}
			slices.Sort(all)
			got = "[" + strings.Join(all, " ") + "]"
		}
		equal(t, tt.template+" of "+tt.uri, got, tt.want)
	}
}

func TestComplete(t *testing.T) {
	fits := func(_ context.Context, typed string, others map[string]string) ([]string, error) {
		if typed == "fail" {
			return nil, mcp.Errorf(-7, "as it was to")
		}
		return slices.Repeat([]string{typed + others["o"]}, len(typed)), nil
	}
	m := New(verse("v", Argument{Name: "a", Complete: fits}, Argument{Name: "none"}),
		Template{URI: "x:{a}", Name: "v", Read: note("x:y").Read, Complete: map[string]Completer{"a": fits}})
	complete := func(ref, argument, context string) string {
		return `{"ref":` + ref + `,"argument":` + argument + context + `}`
	}
	const prompt, template = `{"type":"ref/prompt","name":"v"}`, `{"type":"ref/resource","uri":"x:{a}"}`
	const none = `{"completion":{"hasMore":false,"total":0,"values":[]}}`
	for params, want := range map[string]string{
		complete(prompt, `{"name":"a","value":"q"}`, ``):                                     `{"completion":{"hasMore":false,"total":1,"values":["q"]}}`,
		complete(template, `{"name":"a","value":"q"}`, `,"context":{"arguments":{"o":"!"}}`): `{"completion":{"hasMore":false,"total":1,"values":["q!"]}}`,
		complete(prompt, `{"name":"a","value":"q"}`, `,"context":{"arguments":{"o":1}}`):     `{"completion":{"hasMore":false,"total":1,"values":["q"]}}`,
		complete(prompt, `{"name":"none","value":"q"}`, ``):                                  none,
		complete(prompt, `{"name":"unknown","value":"q"}`, ``):                               none,
		complete(template, `{"name":"b","value":"q"}`, ``):                                   none,
	} {
		equal(t, params, answer(t, m, "completion/complete", params), want)
	}
	long := answer(t, m, "completion/complete", complete(prompt, `{"name":"a","value":"`+strings.Repeat("q", 101)+`"}`, ``))
	if !strings.HasPrefix(long, `{"completion":{"hasMore":true,"total":101,`) || strings.Count(long, `q"`) != 100 {
		t.Errorf("101 values: %.80s with %d", long, strings.Count(long, `q"`))
	}
	for params, want := range map[string]string{
		`{}`: "unknown reference: nothing to complete",
		complete(`{"type":"ref/prompt","name":"x"}`, `{"name":"a","value":""}`, ``):  "unknown reference: nothing to complete",
		complete(`{"type":"ref/resource","uri":"v"}`, `{"name":"a","value":""}`, ``): "unknown reference: nothing to complete",
		complete(`{"type":"ref/tool","name":"v"}`, `{"name":"a","value":""}`, ``):    "unknown reference: nothing to complete",
		complete(prompt, `{"name":"a","value":1}`, ``):                               "the argument is invalid: /value does not",
	} {
		refused(t, m, request(t, "completion/complete", params), mcp.CodeInvalidParams, want)
	}
	refused(t, m, request(t, "completion/complete", complete(prompt, `{"name":"a","value":"fail"}`, ``)), -7, "as it was to")
}
