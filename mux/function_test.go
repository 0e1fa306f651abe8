// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
)

type greetee struct {
	Name  string   `json:"name"`
	Times int      `json:"times"`
	Also  []string `json:"also"`
}

// A bound function gets valid arguments, or is not called.
func TestBound(t *testing.T) {
	called := 0
	m := New(
		Tool{Name: "x", InputSchema: `{"type":"object","required":["name"]}`, Call: Bound(func(_ context.Context, call *Call, in greetee) (*Result, error) {
			called++
			return Say("%s %d %v of %s", in.Name, in.Times, in.Also, call.Arguments()), nil
		})},
		Prompt{Name: "x", Get: Bound(func(_ context.Context, _ *Call, in greetee) ([]Message, error) {
			called++
			return []Message{User(Text(in.Name))}, nil
		})})
	for arguments, want := range map[string]string{
		`{"name":"Ada","times":2}`:        `Ada 2 [] of {\"name\":\"Ada\",\"times\":2}`,
		`{"name":"","also":["Bob"]}`:      ` 0 [Bob] of `,
		`{"name":null}`:                   ` 0 [] of {\"name\":null}`,
		`{"name":"Ada","other":{"x":[]}}`: `Ada 0 [] of `,
	} {
		if got := answer(t, m, "tools/call", `{"name":"x","arguments":`+arguments+`}`); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
	equal(t, "prompt", answer(t, m, "prompts/get", `{"name":"x","arguments":{"name":"Ada"}}`), `{"messages":[{"role":"user","content":{"type":"text","text":"Ada"}}]}`)
	was := called
	for arguments, want := range map[string]string{
		`{"name":"Ada","times":"2"}`: `The arguments are invalid: /times does not have the type required by the schema.`,
		`{"Name":"Ada"}`:             `The argument \"name\" is missing.`,
		`{"times":2}`:                `The argument \"name\" is missing.`,
		`{}`:                         `The argument \"name\" is missing.`,
		`null`:                       `The argument \"name\" is missing.`,
		`["name"]`:                   `The argument \"name\" is missing.`,
	} {
		if got := answer(t, m, "tools/call", `{"name":"x","arguments":`+arguments+`}`); got != `{"content":[{"type":"text","text":"`+want+`"}],"isError":true}` {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
	refused(t, m, request(t, "prompts/get", `{"name":"x","arguments":{"name":7}}`), mcp.CodeInvalidParams, "the arguments are invalid: /name")
	if called != was {
		t.Errorf("called %d times with arguments that do not fit", called-was)
	}
}

// Each call has its own arguments.
func TestBoundConcurrently(t *testing.T) {
	m := doing(Bound(func(_ context.Context, _ *Call, in greetee) (*Result, error) {
		in.Also = append(in.Also, "x")
		return Say("%d", len(in.Also)), nil
	}))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { // ends by itself
			for range 20 {
				if got := answer(t, m, "tools/call", `{"name":"x","arguments":{"also":["a"]}}`); !strings.Contains(got, `"text":"2"`) {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	all.Wait()
}

func TestArguments(t *testing.T) {
	m := doing(func(_ context.Context, call *Call) (*Result, error) { return Say("%s", call.Arguments()), nil })
	for arguments, want := range map[string]string{``: `{}`, `,"arguments":{ "n":1.0}`: `{ \"n\":1.0}`, `,"arguments":[7]`: `[7]`} {
		equal(t, arguments, answer(t, m, "tools/call", `{"name":"x"`+arguments+`}`), `{"content":[{"type":"text","text":"`+want+`"}]}`)
	}
}

// The result of Always is the same for every call.
func TestAlways(t *testing.T) {
	same := Structured([]int{1})
	m := New(Tool{Name: "x", Call: Always(same)}, Prompt{Name: "p", Get: Always([]Message{User(Text("a"))})},
		Resource{URI: "x:y", Name: "r", Read: Always([]Contents{TextContents("x:y", "text/plain", "b")})})
	for range 2 {
		equal(t, "tool", answer(t, m, "tools/call", `{"name":"x"}`), `{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}`)
		equal(t, "prompt", answer(t, m, "prompts/get", `{"name":"p"}`), `{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}`)
		equal(t, "resource", answer(t, m, "resources/read", `{"uri":"x:y"}`), `{"contents":[{"uri":"x:y","mimeType":"text/plain","text":"b"}]}`)
	}
	if same.Content != nil {
		t.Errorf("the function's own result has become %v", same)
	}
	bad := doing(Always(Structured(func() {})))
	if got, err := serve(t, bad, request(t, "tools/call", `{"name":"x"}`)); err == nil {
		t.Errorf("what has no JSON text is answered: %s", got)
	}
}

// Errorf wraps like fmt.Errorf, and is found in errors that wrap it.
func TestErrorf(t *testing.T) {
	cause := errors.New("cause")
	err := Errorf("no %q: %w", "x", cause)
	if err.Error() != `no "x": cause` || !errors.Is(err, cause) {
		t.Errorf("got %v, which wraps %v", err, errors.Unwrap(err))
	}
	for _, err := range []error{err, fmt.Errorf("secret: %w", err), errors.Join(errors.New("secret"), err)} {
		m := doing(func(context.Context, *Call) (*Result, error) { return Say("unheard"), err })
		equal(t, err.Error(), answer(t, m, "tools/call", `{"name":"x"}`), `{"content":[{"type":"text","text":"no \"x\": cause"}],"isError":true}`)
	}
	m := New(Resource{URI: "x:y", Name: "r", Read: func(context.Context, *Call) ([]Contents, error) { return nil, err }})
	refused(t, m, request(t, "resources/read", `{"uri":"x:y"}`), mcp.CodeInvalidParams, `resource x:y: no "x": cause`)
}

// A call that has begun continues, even if its tool is removed.
func TestRemovedWhileCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		m := doing(func(context.Context, *Call) (*Result, error) { <-goOn; return Say("old"), nil })
		got := make(chan string)
		go func() { got <- answer(t, m, "tools/call", `{"name":"x"}`) }() // ends with the call, below
		synctest.Wait()
		m.MustAdd(Tool{Name: "x", Call: Always(Say("new"))})
		equal(t, "replaced", answer(t, m, "tools/call", `{"name":"x"}`), `{"content":[{"type":"text","text":"new"}]}`)
		if err := m.Remove(Tool{Name: "x"}); err != nil {
			t.Error(err)
		}
		refused(t, m, request(t, "tools/call", `{"name":"x"}`), mcp.CodeInvalidParams, "unknown tool")
		close(goOn)
		equal(t, "begun", <-got, `{"content":[{"type":"text","text":"old"}]}`)
	})
}

// A function may change the items, including its own tool.
func TestFunctionThatRemovesItself(t *testing.T) {
	m := new(Mux)
	m.MustAdd(Tool{Name: "once", Call: func(context.Context, *Call) (*Result, error) {
		return Say("done"), m.Remove(Tool{Name: "once"})
	}})
	equal(t, "first", answer(t, m, "tools/call", `{"name":"once"}`), `{"content":[{"type":"text","text":"done"}]}`)
	refused(t, m, request(t, "tools/call", `{"name":"once"}`), mcp.CodeInvalidParams, "unknown tool")
}

// Kinds declared in advance are announced, with empty lists.
func TestHas(t *testing.T) {
	m := &Mux{HasTools: true, HasResources: true, HasPrompts: true}
	equal(t, "discover", answer(t, m, "server/discover", ``), `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},`+
		`"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true},"logging":{}}}`)
	for method, want := range map[string]string{
		"tools/list": `{"tools":[]}`, "prompts/list": `{"prompts":[]}`, "resources/list": `{"resources":[]}`, "resources/templates/list": `{"resourceTemplates":[]}`,
	} {
		equal(t, method, answer(t, m, method, ``), want)
	}
	refused(t, m, request(t, "tools/call", `{"name":"x"}`), mcp.CodeInvalidParams, "unknown tool")
	refused(t, m, request(t, "resources/read", `{"uri":"x:y"}`), mcp.CodeInvalidParams, "not found")
	refused(t, m, request(t, "prompts/get", `{"name":"x"}`), mcp.CodeInvalidParams, "unknown prompt")
}

// A result that cannot be encoded is an unexpected error, and never a partial result.
func TestResultsThatDoNotEncode(t *testing.T) {
	m := New(
		Tool{Name: "content", Call: Always(Show(Text("a"), Content{}))},
		Tool{Name: "meta", Call: Always(&Result{Meta: `{"a":`})},
		Tool{Name: "member", Call: Always(Show(Text("a").With("_meta", `{`)))},
		Prompt{Name: "p", Get: Always([]Message{User(Content{})})},
		Resource{URI: "x:y", Name: "r", Read: Always([]Contents{{}})},
	)
	for params, method := range map[string]string{
		`{"name":"content"}`: "tools/call", `{"name":"meta"}`: "tools/call", `{"name":"member"}`: "tools/call",
		`{"name":"p"}`: "prompts/get", `{"uri":"x:y"}`: "resources/read",
	} {
		got, err := serve(t, m, request(t, method, params))
		if _, wire := errors.AsType[*mcp.Error](err); err == nil || wire {
			t.Errorf("%s %s: got %s, %v", method, params, got, err)
		}
	}
}

// Unexpected errors of prompts, resources and completions are errors of the request, as
// for tools.
func TestUnexpectedErrors(t *testing.T) {
	secret := errors.New("secret")
	m := New(
		Prompt{Name: "p", Arguments: []Argument{{Name: "a", Complete: func(context.Context, string, map[string]string) ([]string, error) { return nil, secret }}},
			Get: func(context.Context, *Call) ([]Message, error) { return nil, secret }},
		Resource{URI: "x:y", Name: "r", Read: func(context.Context, *Call) ([]Contents, error) { return nil, secret }})
	for method, params := range map[string]string{
		"prompts/get": `{"name":"p"}`, "resources/read": `{"uri":"x:y"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`,
	} {
		if got, err := serve(t, m, request(t, method, params)); !errors.Is(err, secret) {
			t.Errorf("%s: got %s, %v", method, got, err)
		}
	}
}
