// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	nameForm = `{"type":"object","properties":{"name":{"type":"string"}}}`
	ada      = `{"action":"accept","content":{"name":"Ada"}}`
	blue     = `{"role":"assistant","model":"m","content":{"type":"text","text":"blue"}}`
)

func name(a Answer) string {
	var in struct {
		Name string `json:"name"`
	}
	if !a.Content(&in) {
		return "(" + a.Action() + ")"
	}
	return in.Name
}

// interview asks in two rounds.
func interview(ctx context.Context, call *Call) (*Result, error) {
	first, err := call.Input(ctx, Elicit("who", "Who?", nameForm))
	if err != nil {
		return nil, err
	}
	second, err := call.Input(ctx, Sample("color", 1), Roots("where"))
	if err != nil {
		return nil, err
	}
	return Say("%s likes %s in %s", name(first["who"]), second["color"].Text(), second["where"]), nil
}

// round is an input_required result.
type round struct {
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
	RequestState string
}

func roundOf(t *testing.T, raw string) round {
	t.Helper()
	var r round
	if err := json.Unmarshal([]byte(raw), &r); err != nil {
		t.Fatal(err)
	}
	if r.ResultType != mcp.ResultInputRequired || len(r.InputRequests) == 0 || r.RequestState == "" {
		t.Fatalf("no question: %s", raw)
	}
	return r
}

func retry(state, responses string) string {
	params := `{"name":"x","arguments":{"b":1,"a":2.0},"inputResponses":` + responses
	if state != "" {
		params += `,"requestState":"` + state + `"`
	}
	return params + `}`
}

// A function that asks is called again, with all answers so far, until it has all that
// it needs.
func TestInputInRounds(t *testing.T) {
	m := doing(interview)
	first := roundOf(t, answer(t, m, "tools/call", retry("", `{}`)))
	who := first.InputRequests["who"]
	equal(t, "first", who.Method+" "+string(who.Params), `elicitation/create {"mode":"form","message":"Who?","requestedSchema":`+nameForm+`}`)
	second := roundOf(t, answer(t, m, "tools/call", retry(first.RequestState, `{"who":`+ada+`}`)))
	if len(second.InputRequests) != 2 || second.InputRequests["color"].Method != "sampling/createMessage" || second.InputRequests["where"].Method != "roots/list" {
		t.Errorf("the second round asks %v", second.InputRequests)
	}
	if second.RequestState == first.RequestState {
		t.Error("the state has not changed")
	}
	third := roundOf(t, answer(t, m, "tools/call", retry(second.RequestState, `{"color":`+blue+`,"other":{}}`)))
	if _, left := third.InputRequests["where"]; !left || len(third.InputRequests) != 1 {
		t.Errorf("the third round asks %v, want what is left", third.InputRequests)
	}
	// A client may format its retry anew.
	params := `{"arguments":{"a":2.0,"b":1},"requestState":"` + third.RequestState + `","name":"x","inputResponses":{"where":{"roots":[]},"color":` + blue + `},"_meta":{}}`
	equal(t, "end", answer(t, m, "tools/call", params), `{"content":[{"type":"text","text":"Ada likes blue in {\"roots\":[]}"}]}`)
}

// Answers without a state are accepted: the Mux keeps nothing that could show whether
// it asked.
func TestInputWithoutState(t *testing.T) {
	m := doing(interview)
	got := answer(t, m, "tools/call", retry("", `{"who":`+ada+`,"color":`+blue+`,"where":{"roots":[]},"extra":{}}`))
	equal(t, "end", got, `{"content":[{"type":"text","text":"Ada likes blue in {\"roots\":[]}"}]}`)
}

func TestInputInvalidAnswers(t *testing.T) {
	m := doing(interview)
	for responses, want := range map[string]string{
		`null`: "must be an object", `[]`: "must be an object", `7`: "must be an object",
		`{"who":7}`: "who is not a valid answer to elicitation/create", `{"who":{"action":"perhaps"}}`: "who is not a valid answer",
		`{"who":{"action":"accept","content":[]}}`:                     "who is not a valid answer",
		`{"who":` + ada + `,"color":{"role":"assistant"}}`:             "color is not a valid answer to sampling/createMessage",
		`{"who":` + ada + `,"color":` + blue + `,"where":{"roots":1}}`: "where is not a valid answer to roots/list",
	} {
		refused(t, m, request(t, "tools/call", retry("", responses)), mcp.CodeInvalidParams, want)
	}
}

// A state is valid for its request and its principal, for a limited time, and
// unmodified.
func TestForeignStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := doing(interview)
		m.MustAdd(Tool{Name: "y", Call: interview})
		state := roundOf(t, answer(t, m, "tools/call", retry("", `{}`))).RequestState
		again := retry(state, `{"who":`+ada+`}`)
		principal := request(t, "tools/call", again)
		principal.Principal = "eve"
		for what, req := range map[string]*mcp.Request{
			"tampered":        request(t, "tools/call", retry(state+"-TAMPERED", `{}`)),
			"empty":           request(t, "tools/call", `{"name":"x","requestState":""}`),
			"no text":         request(t, "tools/call", `{"name":"x","requestState":7}`),
			"another tool":    request(t, "tools/call", strings.Replace(again, `"x"`, `"y"`, 1)),
			"other arguments": request(t, "tools/call", strings.Replace(again, `2.0`, `3.0`, 1)),
			"another one":     principal,
		} {
			t.Log(what)
			refused(t, m, req, mcp.CodeInvalidParams, "requestState is unknown or expired")
		}
		refused(t, doing(interview), request(t, "tools/call", again), mcp.CodeInvalidParams, "requestState") // of another server
		roundOf(t, answer(t, m, "tools/call", again))
		time.Sleep(stateLife - time.Second)
		roundOf(t, answer(t, m, "tools/call", again))
		time.Sleep(2 * time.Second)
		refused(t, m, request(t, "tools/call", again), mcp.CodeInvalidParams, "requestState is unknown or expired")
	})
}

// Servers that share a key accept each other's states.
func TestStatesOfReplicas(t *testing.T) {
	replica := func(keys ...string) *Mux {
		m := doing(interview)
		for _, key := range keys {
			m.StateKeys = append(m.StateKeys, []byte(strings.Repeat(key, 32)))
		}
		return m
	}
	state := roundOf(t, answer(t, replica("a"), "tools/call", retry("", `{}`))).RequestState
	roundOf(t, answer(t, replica("b", "a"), "tools/call", retry(state, `{"who":`+ada+`}`)))
	refused(t, replica("b"), request(t, "tools/call", retry(state, `{}`)), mcp.CodeInvalidParams, "requestState")
}

// A client is never asked for what it has not declared.
func TestAskOnlyWhatIsDeclared(t *testing.T) {
	for _, tt := range []struct {
		capabilities string
		q            Question
		missing      string
	}{
		{everything, Elicit("k", "m", `{}`), ``}, {everything, Visit("k", "m", "https://x.example"), ``}, {everything, Roots("k"), ``}, {everything, Sample("k", 1), ``},
		{`{}`, Elicit("k", "m", `{}`), `{"elicitation":{"form":{}}}`}, {`{"elicitation":{}}`, Visit("k", "m", "u"), `{"elicitation":{"url":{}}}`},
		{`{}`, Roots("k"), `{"roots":{}}`}, {``, Sample("k", 1), `{"sampling":{}}`}, {`{"sampling":{}}`, Sample("k", 1).With("tools", `[]`), `{"sampling":{"tools":{}}}`},
	} {
		var can bool
		m := doing(func(ctx context.Context, call *Call) (*Result, error) {
			can = call.CanAsk(tt.q)
			_, err := call.Input(ctx, tt.q)
			return nil, err
		})
		req := request(t, "tools/call", `{"name":"x"}`)
		req.Client = &mcp.Peer{Version: mcp.LatestModern, Capabilities: []byte(tt.capabilities)}
		got, err := serve(t, m, req)
		if can != (tt.missing == "") {
			t.Errorf("%s of %s: CanAsk says %v", tt.q.Method, tt.capabilities, can)
		}
		if tt.missing == "" {
			roundOf(t, got)
			continue
		}
		e, ok := errors.AsType[*mcp.Error](err)
		if !ok || e.Code != mcp.CodeMissingCapability || string(e.Data) != `{"requiredCapabilities":`+tt.missing+`}` {
			t.Errorf("%s of %s: %s, %v; want that %s is missing", tt.q.Method, tt.capabilities, got, err, tt.missing)
		}
	}
	m := doing(func(ctx context.Context, call *Call) (*Result, error) {
		_, err := call.Input(ctx, Question{Key: "k", Method: "tools/list", Params: `{}`})
		return nil, err
	})
	refused(t, m, request(t, "tools/call", `{"name":"x"}`), mcp.CodeInternalError, "cannot be asked for tools/list")
}

// With a client that does not retry by itself, the same function asks and waits.
func TestInputWithLegacyClient(t *testing.T) {
	m := doing(interview)
	req := request(t, "tools/call", `{"name":"x"}`)
	req.TakesInputRequired = false
	a := &recorder{answers: map[string]string{"elicitation/create": `{"action":"decline"}`, "sampling/createMessage": blue, "roots/list": `{"roots":[]}`}}
	res, err := m.Serve(t.Context(), req, a)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "end", string(res.Bytes()), `{"content":[{"type":"text","text":"(decline) likes blue in {\"roots\":[]}"}]}`)
	var methods []string
	for _, asked := range a.asked {
		method, _, _ := strings.Cut(asked, " ")
		methods = append(methods, method)
	}
	if want := []string{"elicitation/create", "sampling/createMessage", "roots/list"}; !slices.Equal(methods, want) {
		t.Errorf("asked %q, want %q", methods, want)
	}
	delete(a.answers, "roots/list")
	if res, err := m.Serve(t.Context(), req, a); !errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
		t.Errorf("got %v, %v; want the client's refusal", res, err)
	}
}

// Prompts and resources ask as tools do.
func TestInputOfPromptsAndResources(t *testing.T) {
	m := New(
		Prompt{Name: "p", Get: func(ctx context.Context, call *Call) ([]Message, error) {
			a, err := call.Input(ctx, Elicit("who", "Who?", nameForm))
			return []Message{User(Text(name(a["who"])))}, err
		}},
		Resource{URI: "x:y", Name: "r", Read: func(ctx context.Context, call *Call) ([]Contents, error) {
			a, err := call.Input(ctx, Elicit("who", "Who?", nameForm))
			return []Contents{TextContents("x:y", "text/plain", name(a["who"]))}, err
		}})
	for method, params := range map[string]string{"prompts/get": `"name":"p"`, "resources/read": `"uri":"x:y"`} {
		r := roundOf(t, answer(t, m, method, `{`+params+`}`))
		got := answer(t, m, method, `{`+params+`,"inputResponses":{"who":`+ada+`},"requestState":"`+r.RequestState+`"}`)
		if !strings.Contains(got, `"text":"Ada"`) {
			t.Errorf("%s: %s", method, got)
		}
	}
}

func TestAnswers(t *testing.T) {
	for raw, want := range map[string]string{
		blue: "blue", `{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}`: "ab", `{}`: "", `7`: "",
	} {
		equal(t, raw, Answer(raw).Text(), want)
	}
	for raw, want := range map[string]string{
		ada: "Ada", `{"action":"cancel","content":{"name":"Ada"}}`: "(cancel)", `{"action":"accept"}`: "(accept)",
		`{"action":"accept","content":{"name":7}}`: "(accept)", `[]`: "()",
	} {
		equal(t, raw, name(Answer(raw)), want)
	}
}
