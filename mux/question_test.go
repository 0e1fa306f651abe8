// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A question is sent as the request of its method.
func TestQuestions(t *testing.T) {
	for _, tt := range []struct {
		q              Question
		method, params string
	}{
		{Elicit("k", "Who \"is\" it?", `{"type":"object"}`), "elicitation/create", `{"mode":"form","message":"Who \"is\" it?","requestedSchema":{"type":"object"}}`},
		{Visit("k", "Sign in.", "https://x.example/?a=b"), "elicitation/create", `{"mode":"url","message":"Sign in.","url":"https://x.example/?a=b"}`},
		{Roots("k"), "roots/list", `{}`},
		{Sample("k", 9), "sampling/createMessage", `{"messages":[],"maxTokens":9}`},
		{Sample("k", 9, User(Text("Hi <b>")), Assistant(Image("a/b", []byte{1}))), "sampling/createMessage",
			`{"messages":[{"role":"user","content":{"type":"text","text":"Hi <b>"}},{"role":"assistant","content":{"type":"image","data":"AQ==","mimeType":"a/b"}}],"maxTokens":9}`},
		{Sample("k", 9).With("systemPrompt", MustJSON("Be \"brief\".")), "sampling/createMessage", `{"messages":[],"maxTokens":9,"systemPrompt":"Be \"brief\"."}`},
	} {
		req, err := tt.q.request()
		if err != nil {
			t.Fatal(err)
		}
		if req.Method != tt.method || string(req.Params.Bytes()) != tt.params || tt.q.Key != "k" {
			t.Errorf("got %s %s, want %s %s", req.Method, req.Params.Bytes(), tt.method, tt.params)
		}
	}
}

// With changes a copy.
func TestQuestionWith(t *testing.T) {
	plain := Sample("k", 1)
	plain.With("temperature", `0.5`)
	equal(t, "the question", string(plain.Params), `{"messages":[],"maxTokens":1}`)
}

// Invalid JSON in a question is an error of the function that asks it.
func TestInvalidQuestion(t *testing.T) {
	for _, ask := range []func(ctx context.Context, call *Call, q Question) error{
		func(ctx context.Context, call *Call, q Question) error { _, err := call.Ask(ctx, q); return err },
		func(ctx context.Context, call *Call, q Question) error { _, err := call.Input(ctx, q); return err },
	} {
		m := doing(func(ctx context.Context, call *Call) (*Result, error) {
			q := Elicit("k", "m", `{`)
			if call.CanAsk(q) {
				return Say("it can be asked"), nil
			}
			return nil, ask(ctx, call, q)
		})
		if got, err := serve(t, m, request(t, "tools/call", `{"name":"x"}`)); err == nil {
			t.Errorf("got %s", got)
		}
	}
}

func TestAnswerRoots(t *testing.T) {
	for raw, want := range map[string][]Root{
		`{"roots":[{"uri":"file:///a","name":"A"},{"uri":"file:///b"}]}`: {{"file:///a", "A"}, {"file:///b", ""}},
		`{"roots":[]}`: nil, `{}`: nil, `{"roots":7}`: nil, `[]`: nil,
	} {
		if got := Answer(raw).Roots(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", raw, got, want)
		}
	}
}

// askedClient is a client that is asked several questions at once, and refuses one of
// them.
type askedClient struct {
	recorder
	refuses string

	mu    sync.Mutex
	taken []string // cancelled questions
}

func (c *askedClient) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.taken = append(c.taken, req.Method)
	})
	return func() (*mcp.Result, error) {
		if req.Method == c.refuses {
			return nil, mcp.Errorf(mcp.CodeInvalidRequest, "not that")
		}
		return mcp.NewResult([]byte(`{}`))
	}, nil
}

// Of questions that are asked at once, a refused one cancels the others.
func TestRefusedQuestionCancelsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := doing(func(ctx context.Context, call *Call) (*Result, error) {
			_, err := call.Input(ctx, Sample("a", 1), Roots("b"), Elicit("c", "?", nameForm))
			return nil, err
		})
		req := request(t, "tools/call", `{"name":"x"}`)
		req.TakesInputRequired = false
		c := &askedClient{refuses: "roots/list"}
		if res, err := m.Serve(t.Context(), req, c); !errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidRequest}) {
			t.Errorf("got %v, %v; want the refusal", res, err)
		}
		synctest.Wait()
		slices.Sort(c.taken)
		heard(t, c.taken, "elicitation/create", "roots/list", "sampling/createMessage")
	})
}

// A key that is too short is an error when it is first needed.
func TestShortStateKey(t *testing.T) {
	m := doing(interview)
	m.StateKeys = [][]byte{[]byte(strings.Repeat("k", 31))}
	if got, err := serve(t, m, request(t, "tools/call", `{"name":"x"}`)); err == nil {
		t.Errorf("got %s", got)
	}
}
