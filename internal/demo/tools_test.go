// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// "Input validation errors" are tool execution errors, which the model can read and correct
// (2025-11-25, server/tools, "Error Handling").
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ name, call, want string }{
		{"another type", `"name":"echo","arguments":{"text":7}`, `The arguments are invalid: /text does not have the type required by the schema.`},
		{"no object", `"name":"echo","arguments":"hi"`, `The arguments are invalid: they do not match the schema.`},
		{"twice", `"name":"echo","arguments":{"text":"a","text":"b"}`, `The arguments are invalid: they do not match the schema.`},
		{"a fraction", `"name":"roll_dice","arguments":{"count":1.5}`, `The arguments are invalid: /count does not have the type required by the schema.`},
		{"no dice", `"name":"roll_dice","arguments":{"count":0}`, `count must be from 1 to 10, not 0.`},
		{"too many dice", `"name":"roll_dice","arguments":{"count":11}`, `count must be from 1 to 10, not 11.`},
		{"from nowhere", `"name":"countdown","arguments":{"from":0}`, `from must be from 1 to 60, not 0.`},
		{"from far away", `"name":"countdown","arguments":{"from":61}`, `from must be from 1 to 60, not 61.`},
		{"back in time", `"name":"countdown","arguments":{"stepMs":-1}`, `stepMs must be from 0 to 1000, not -1.`},
		{"for ever", `"name":"countdown","arguments":{"stepMs":1001}`, `stepMs must be from 0 to 1000, not 1001.`},
		{"steps of another type", `"name":"countdown","arguments":{"stepMs":"1s"}`, `The arguments are invalid: /stepMs does not have the type required by the schema.`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &audience{}
			got, err := serve(t, a, mcp.LogDebug, "tools/call", "{"+tt.call+"}")
			want := `{"content":[{"type":"text","text":"` + tt.want + `"}],"isError":true}`
			if err != nil || got != want || a.heard != nil {
				t.Errorf("got %s, %v, heard %q; want %s", got, err, a.heard, want)
			}
		})
	}
}

func TestCountdownSendsOnlyRequestedNotifications(t *testing.T) {
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
		{"progress by a large number", mcp.LogNone, `,"_meta":{"progressToken":9007199254740993}`, []string{
			`notifications/progress {"progressToken":9007199254740993,"progress":1,"total":2,"message":"1 to go"}`,
			`notifications/progress {"progressToken":9007199254740993,"progress":2,"total":2,"message":"0 to go"}`,
		}},
		{"log", mcp.LogInfo, ``, []string{
			`notifications/message {"level":"info","logger":"countdown","data":"1 to go"}`,
			`notifications/message {"level":"info","logger":"countdown","data":"0 to go"}`,
		}},
		{"both, in turn", mcp.LogDebug, `,"_meta":{"progressToken":1}`, []string{
			`notifications/progress {"progressToken":1,"progress":1,"total":2,"message":"1 to go"}`,
			`notifications/message {"level":"info","logger":"countdown","data":"1 to go"}`,
			`notifications/progress {"progressToken":1,"progress":2,"total":2,"message":"0 to go"}`,
			`notifications/message {"level":"info","logger":"countdown","data":"0 to go"}`,
		}},
		{"only errors", mcp.LogError, ``, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &audience{}
				got, err := serve(t, a, tt.level, "tools/call", `{"name":"countdown","arguments":{"from":2}`+tt.meta+`}`)
				if err != nil || !strings.Contains(got, "Lift-off after 2 steps.") {
					t.Fatalf("got %s, %v", got, err)
				}
				if !slices.Equal(a.heard, tt.want) {
					t.Errorf("heard %q, want %q", a.heard, tt.want)
				}
			})
		})
	}
}

func TestCountdownTakesItsTime(t *testing.T) {
	for arguments, want := range map[string]time.Duration{
		`{}`:                           900 * time.Millisecond,
		`{"from":1}`:                   300 * time.Millisecond,
		`{"from":60,"stepMs":1000}`:    time.Minute,
		`{"from":60,"stepMs":0}`:       0,
		`{"from":7.0e0,"stepMs":10.0}`: 0, // valid forms of an integer
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			if _, err := serve(t, &audience{}, mcp.LogNone, "tools/call", `{"name":"countdown","arguments":`+arguments+`}`); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != want {
				t.Errorf("%s took %v, want %v", arguments, got, want)
			}
		})
	}
}

func TestCountdownCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		a := &audience{}
		req := request(t, "tools/call", `{"name":"countdown","arguments":{"from":60,"stepMs":1000},"_meta":{"progressToken":1}}`)
		_, err := New().Serve(ctx, req, a)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("got %v after %v, want the context's error at its end", err, time.Since(start))
		}
		if len(a.heard) != 2 {
			t.Errorf("heard %q, want two steps", a.heard)
		}
	})
}

// If a notification cannot be delivered, the countdown ends.
func TestCountdownEndsIfNotificationsFail(t *testing.T) {
	for _, level := range []mcp.LogLevel{mcp.LogNone, mcp.LogInfo} {
		a := &audience{deaf: mcp.ErrRequestEnded}
		meta := `,"_meta":{"progressToken":1}`
		if level == mcp.LogInfo {
			meta = ""
		}
		_, err := serve(t, a, level, "tools/call", `{"name":"countdown"`+meta+`}`)
		if !errors.Is(err, mcp.ErrRequestEnded) || len(a.heard) != 1 {
			t.Errorf("got %v after %q, want the caller's error after one message", err, a.heard)
		}
	}
}

func TestIntroduce(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"accepted", `{"action":"accept","content":{"name":"Ada"}}`, `{"content":[{"type":"text","text":"Hello, Ada!"}]}`},
		{"accepted, with a name that is no ASCII", `{"action":"accept","content":{"name":"\"Zoë\"\n"}}`, `"text":"Hello, \"Zoë\"\n!"`},
		{"declined", `{"action":"decline"}`, `{"content":[{"type":"text","text":"The user did not say (decline)."}]}`},
		{"cancelled", `{"action":"cancel"}`, `"text":"The user did not say (cancel)."`},
		{"declined, with something all the same", `{"action":"decline","content":{"name":"Ada"}}`, `did not say (decline)`},
		{"another form", `{"action":"accept","content":{"name":7}}`, `"text":"The answer was not of the form that was asked for."}],"isError":true`},
		{"no form", `{"action":"accept","content":"Ada"}`, `"isError":true`},
		{"cannot be asked", ``, `"text":"The user could not be asked: no elicitation/create here (code -32601)"}],"isError":true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &audience{answer: tt.answer}
			got, err := serve(t, a, mcp.LogNone, "tools/call", `{"name":"introduce"}`)
			if err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, %v; want it to contain %s", got, err, tt.want)
			}
			if want := []string{"elicitation/create " + string(askName().Params)}; !slices.Equal(a.asked, want) {
				t.Errorf("asked %q, want %q", a.asked, want)
			}
		})
	}
}

// A call that is canceled while the user is asked returns no result about the user.
func TestIntroduceCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res, err := New().Serve(ctx, request(t, "tools/call", `{"name":"introduce"}`), &audience{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want the context's error", res, err)
	}
}

func listedTools(t *testing.T) map[string]jsonTool {
	t.Helper()
	var list struct {
		Tools []jsonTool `json:"tools"`
	}
	if err := json.Unmarshal([]byte(answer(t, "tools/list", "")), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]jsonTool{}
	for _, tool := range list.Tools {
		all[tool.Name] = tool
	}
	return all
}

type jsonTool struct {
	Name, Title, Description  string
	InputSchema, OutputSchema *jsonschema.Schema
}

// The listed tools are those that can be called, and each has what people and models need.
func TestToolsAreListedWhole(t *testing.T) {
	listed := listedTools(t)
	for _, tool := range tools() {
		got, ok := listed[tool.Name]
		if !ok || got.Title == "" || !strings.HasSuffix(got.Description, ".") || got.InputSchema == nil || got.InputSchema.Type != "object" {
			t.Errorf("%s is listed as %+v", tool.Name, got)
		}
	}
	if len(listed) != len(tools()) {
		t.Errorf("%d tools are listed, and %d can be called", len(listed), len(tools()))
	}
}

// "Servers MUST provide structured results that conform to this schema"
// (2026-07-28, server/tools, "Output Schema").
func TestStructuredContentConforms(t *testing.T) {
	schema, err := listedTools(t)["roll_dice"].OutputSchema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range []string{`{}`, `{"count":1}`, `{"count":10}`} {
		for range 50 {
			var got struct {
				Content           []struct{ Text string }
				StructuredContent any
			}
			raw := answer(t, "tools/call", `{"name":"roll_dice","arguments":`+count+`}`)
			if err := json.Unmarshal([]byte(raw), &got); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(got.StructuredContent); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			checkRoll(t, count, raw)
		}
	}
}

// checkRoll checks what the schema does not: the sum, the number of dice, and that the texts
// agree with the structured content.
func checkRoll(t *testing.T, arguments, raw string) {
	t.Helper()
	in := struct{ Count int }{2}
	if err := json.Unmarshal([]byte(arguments), &in); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Content           []struct{ Text string }
		StructuredContent roll
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	r, sum := got.StructuredContent, 0
	for _, d := range r.Dice {
		sum += d
	}
	if len(r.Dice) != in.Count || r.Sum != sum {
		t.Errorf("%s: %d dice with the sum %d", raw, len(r.Dice), sum)
	}
	var again roll
	if len(got.Content) != 2 || got.Content[0].Text != r.String() {
		t.Fatalf("%s: want two texts, the first %q", raw, r)
	}
	if err := json.Unmarshal([]byte(got.Content[1].Text), &again); err != nil || !slices.Equal(again.Dice, r.Dice) || again.Sum != sum {
		t.Errorf("%s: the text is %+v, %v", raw, again, err)
	}
}

func TestRollInWords(t *testing.T) {
	for want, r := range map[string]roll{
		"4 = 4":          {[]int{4}, 4},
		"2 + 5 = 7":      {[]int{2, 5}, 7},
		"1 + 1 + 6 = 8":  {[]int{1, 1, 6}, 8},
		"6 + 6 + 6 = 18": {[]int{6, 6, 6}, 18},
	} {
		if got := r.String(); got != want {
			t.Errorf("%v: %q, want %q", r.Dice, got, want)
		}
	}
}

// "Resource templates allow servers to expose parameterized resources using URI templates"
// (2026-07-28, server/resources, "Resource Templates"): the list, completion and the template
// have the same languages.
func TestLanguagesAgree(t *testing.T) {
	var read struct {
		Contents []struct{ Text string }
	}
	if err := json.Unmarshal([]byte(answer(t, "resources/read", `{"uri":"demo://languages"}`)), &read); err != nil {
		t.Fatal(err)
	}
	var listed []string
	if err := json.Unmarshal([]byte(read.Contents[0].Text), &listed); err != nil {
		t.Fatalf("the resource is no JSON: %v", err)
	}
	var completed struct{ Completion struct{ Values []string } }
	raw := answer(t, "completion/complete", `{"ref":{"type":"ref/resource","uri":"demo://greeting/{language}"},"argument":{"name":"language","value":""}}`)
	if err := json.Unmarshal([]byte(raw), &completed); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(listed, completed.Completion.Values) || !slices.IsSorted(listed) {
		t.Errorf("listed %q, completed %q; want the same, in order", listed, completed.Completion.Values)
	}
	for _, language := range listed {
		if got := answer(t, "resources/read", `{"uri":"demo://greeting/`+language+`"}`); strings.Contains(got, `"text":""`) {
			t.Errorf("%s: %s", language, got)
		}
	}
}
