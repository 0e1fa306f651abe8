// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Only the members that the two forms name differently change; all others keep their
// bytes, their order and the text of their numbers.
func TestForms(t *testing.T) {
	toCreated := func(raw string) (string, error) { b, err := task.ToCreated([]byte(raw)); return string(b), err }
	fromCreated := func(raw string) (string, error) { b, _ := task.FromCreated([]byte(raw)); return string(b), nil }
	toTask := func(raw string) (string, error) { b, err := task.ToTask([]byte(raw)); return string(b), err }
	for _, tt := range []struct {
		name, raw, want string
		turn            func(string) (string, error)
	}{
		{
			"created", `{"task":{"taskId":"t","status":"working","ttl":6e4,"pollInterval":5000,"own":{"n":1.0}},"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}`,
			`{"resultType":"task","taskId":"t","status":"working","ttlMs":6e4,"pollIntervalMs":5000,"own":{"n":1.0},"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}`,
			fromCreated,
		},
		{"created, no end", `{"task":{"taskId":"t","status":"working"}}`, `{"resultType":"task","taskId":"t","status":"working","ttlMs":null}`, fromCreated},
		{"no task", `{"content":[],"task":"x"}`, "", fromCreated},
		{"a task without an id", `{"task":{"status":"working"}}`, "", fromCreated},
		{
			"back", `{"resultType":"task","taskId":"t","status":"working","ttlMs":null,"pollIntervalMs":5000,"own":9007199254740993,"_meta":{"x":1}}`,
			`{"task":{"taskId":"t","status":"working","ttl":null,"pollInterval":5000,"own":9007199254740993},"_meta":{"x":1}}`,
			toCreated,
		},
		{
			"working", `{"taskId":"t","status":"working","ttlMs":1,"resultType":"complete"}`,
			`{"taskId":"t","status":"working","ttl":1}`,
			toTask,
		},
		{
			"waiting", `{"taskId":"t","status":"input_required","ttlMs":1,"inputRequests":{"a":{}}}`,
			`{"taskId":"t","status":"input_required","ttl":1}`,
			toTask,
		},
		{
			"completed", `{"taskId":"t","status":"completed","ttlMs":1,"result":{"isError":false}}`,
			`{"taskId":"t","status":"completed","ttl":1}`,
			toTask,
		},
		{
			"a tool that failed", `{"taskId":"t","status":"completed","ttlMs":1,"result":{"isError":true}}`,
			`{"taskId":"t","status":"failed","ttl":1}`,
			toTask,
		},
		{
			"failed", `{"taskId":"t","status":"failed","ttlMs":1,"error":{"code":1}}`,
			`{"taskId":"t","status":"failed","ttl":1}`,
			toTask,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.turn(tt.raw)
			if err != nil || got != tt.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestFromTask(t *testing.T) {
	const legacy = `{"taskId":"t","status":"failed","ttl":60000,"pollInterval":5,"statusMessage":"no"}`
	got, err := task.FromTask([]byte(legacy), task.Completed, "result", []byte(`{"isError":true}`))
	want := `{"taskId":"t","status":"completed","ttlMs":60000,"pollIntervalMs":5,"statusMessage":"no","result":{"isError":true}}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	if _, err := task.FromTask([]byte(`[]`), task.Working, "", nil); err == nil {
		t.Error("an array is taken for a task")
	}
}

func TestRead(t *testing.T) {
	got, err := task.Read([]byte(`{"taskId":"t","status":"working","createdAt":"2026-07-28T10:00:00Z","ttlMs":60000,"pollIntervalMs":250.5}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "t" || got.Status != task.Working || got.TTL != time.Minute || got.Poll != 250500*time.Microsecond || got.Created.IsZero() {
		t.Errorf("Read = %+v", got)
	}
	for _, raw := range []string{`[]`, `{"status":"working"}`, `{"taskId":"t"}`, `{"taskId":1,"status":"working"}`, `{"taskId":"t","taskId":"u","status":"working"}`} {
		if got, err := task.Read([]byte(raw)); err == nil {
			t.Errorf("Read(%s) = %+v, want an error", raw, got)
		}
	}
	for _, raw := range []string{`-1`, `0`, `"60"`, `31536000001`, `1e300`, `null`, `{}`} {
		if got, err := task.Read([]byte(`{"taskId":"t","status":"working","ttlMs":` + raw + `}`)); err != nil || got.TTL != 0 {
			t.Errorf("a time to live of %s is %v, %v", raw, got.TTL, err)
		}
	}
	if got := task.TTL([]byte(`{"ttl":31536000000}`)); got != 365*24*time.Hour {
		t.Errorf("a time to live of a year is %v", got)
	}
	if got := task.TTL(nil); got != 0 {
		t.Errorf("without a time to live it is %v", got)
	}
}

func TestStatusOf(t *testing.T) {
	for raw, want := range map[string]task.Status{
		`{"taskId":"t","status":"input_required"}`: task.InputRequired, `{"status":1}`: "", `{"status":"\ud800"}`: "", `{}`: "", `[]`: "", `{"status":"working"`: "",
	} {
		if got := task.StatusOf([]byte(raw)); got != want {
			t.Errorf("StatusOf(%s) = %q, want %q", raw, got, want)
		}
	}
}

func TestRelatedID(t *testing.T) {
	for raw, want := range map[string]string{`{"taskId":"t"}`: "t", `{"taskId":1}`: "", `{}`: "", ``: "", `"t"`: "", `{"taskId":"t"`: ""} {
		if got := task.RelatedID([]byte(raw)); got != want {
			t.Errorf("RelatedID(%s) = %q, want %q", raw, got, want)
		}
	}
}

// A notification has everything that tasks/get has, except what makes it a result.
func TestNotice(t *testing.T) {
	got, err := task.Notice([]byte(`{"resultType":"complete","taskId":"t","n":1.0,"_meta":{},"result":{"_meta":{}}}`))
	if want := `{"taskId":"t","n":1.0,"result":{"_meta":{}}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if got, err := task.Notice([]byte(`[]`)); err == nil {
		t.Errorf("of an array: %s", got)
	}
}

// Questions keep the order of their keys, and the bytes of their parameters.
func TestInputs(t *testing.T) {
	ask := map[string]string{"b": `{"n":1.0}`, "a\"": ``}
	got := task.Inputs([]string{"b", "a\""}, func(key string) *mcp.Request {
		req, err := mcp.NewRequest("roots/list", []byte(ask[key]))
		if err != nil {
			t.Fatal(err)
		}
		return req
	})
	if want := `{"b":{"method":"roots/list","params":{"n":1.0}},"a\"":{"method":"roots/list"}}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := task.Inputs(nil, nil); string(got) != "{}" {
		t.Errorf("of nothing: %s", got)
	}
}

func TestAnswers(t *testing.T) {
	got, err := task.Answers([]byte(`{"a":{"n":1.0},"\u0062":[]}`))
	if err != nil || len(got) != 2 || string(got["a"]) != `{"n":1.0}` || string(got["b"]) != `[]` {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := task.Answers(nil); err != nil || len(got) != 0 {
		t.Errorf("of nothing: %q, %v", got, err)
	}
	if got, err := task.Answers([]byte(`[]`)); err == nil {
		t.Errorf("of an array: %q", got)
	}
}

// An error of a backend keeps its bytes; the gateway's own is encoded.
func TestErrorJSON(t *testing.T) {
	for want, e := range map[string]*mcp.Error{
		`{"code":-1,"message":"\"no\""}`:            {Code: -1, Message: `"no"`},
		`{"code":-1,"message":"","data":{"n":1.0}}`: {Code: -1, Data: []byte(`{"n":1.0}`)},
		`{"x":1,"code":-2}`:                         {Code: -1, Message: "no", Raw: []byte(`{"x":1,"code":-2}`)},
	} {
		if got := string(task.ErrorJSON(e)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The capabilities for tasks in the two eras.
func TestOffers(t *testing.T) {
	const (
		ext   = `"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}`
		calls = `"tasks":{"requests":{"tools":{"call":{}}},"list":{}}`
	)
	for _, tt := range []struct{ caps, modern, legacy string }{
		{`{"tools":{}}`, `{"tools":{}}`, `{"tools":{}}`},
		{``, ``, ``},
		{`{` + ext + `}`, `{` + ext + `}`, `{` + ext + `,"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`},
		{`{` + calls + `}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `{` + calls + `}`},
		{`{` + calls + `,` + ext + `}`, `{` + ext + `}`, `{` + calls + `,` + ext + `}`},
		{`{"tasks":{"list":{}},"x":1.0}`, `{"x":1.0}`, `{"x":1.0}`},
		{`{"extensions":{"io.modelcontextprotocol/tasks":null}}`, `{"extensions":{"io.modelcontextprotocol/tasks":null}}`, `{"extensions":{"io.modelcontextprotocol/tasks":null}}`},
		{`[]`, `[]`, `[]`},
	} {
		if got := string(task.ModernOffer([]byte(tt.caps))); got != tt.modern {
			t.Errorf("ModernOffer(%s) = %s, want %s", tt.caps, got, tt.modern)
		}
		if got := string(task.WithLegacyOffer([]byte(tt.caps))); got != tt.legacy {
			t.Errorf("WithLegacyOffer(%s) = %s, want %s", tt.caps, got, tt.legacy)
		}
		if got, want := task.OfferOf([]byte(tt.caps)).Any(), strings.Contains(tt.legacy, `"call":{}`); got != want {
			t.Errorf("tools of %s can be called as tasks: %v, want %v", tt.caps, got, want)
		}
	}
}

func TestDeclare(t *testing.T) {
	for _, tt := range []struct{ caps, want string }{
		{``, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{`{"roots":{}}`, `{"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{`{"extensions":{"a/b":{}},"roots":{}}`, `{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}},"roots":{}}`},
		{`{"extensions":{"io.modelcontextprotocol/tasks":{"own":1}}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{"own":1}}}`},
		{`"no object"`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{`{"extensions":[],"roots":{}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}},"roots":{}}`},
	} {
		got := task.Declare([]byte(tt.caps))
		if string(got) != tt.want || !task.Declared(got) {
			t.Errorf("Declare(%s) = %s, want %s", tt.caps, got, tt.want)
		}
	}
}

func TestDeclaredOthers(t *testing.T) {
	for caps, want := range map[string]bool{
		``: false, `[]`: false, `{"extensions":{}}`: false, `{"extensions":["a/b"]}`: false, `{"tasks":{}}`: false,
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`:          false,
		`{"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{}}}`: true,
		`{"extensions":{"a/b":{}}}`:                                    true,
	} {
		if got := task.DeclaredOthers([]byte(caps)); got != want {
			t.Errorf("%s declares other extensions: %v, want %v", caps, got, want)
		}
	}
}

// A client's own tasks are removed from its capabilities, and nothing else.
func TestWithoutOwn(t *testing.T) {
	for caps, want := range map[string]string{
		``: ``, `[]`: `[]`, `{ "roots" : {} }`: `{ "roots" : {} }`,
		`{"roots":{"n":1.0},"tasks":{"list":{}},"x":1}`: `{"roots":{"n":1.0},"x":1}`,
	} {
		if got := string(task.WithoutOwn([]byte(caps))); got != want {
			t.Errorf("WithoutOwn(%s) = %s, want %s", caps, got, want)
		}
	}
}

func TestWatches(t *testing.T) {
	for filter, want := range map[string]bool{``: false, `{}`: false, `{"toolsListChanged":true}`: false, `{"taskIds":[]}`: true, `{"x":1,"taskIds":["t"]}`: true} {
		if got := task.Watches([]byte(filter)); got != want {
			t.Errorf("%s names tasks: %v, want %v", filter, got, want)
		}
	}
}

func TestMissing(t *testing.T) {
	if !task.IsMissing(task.Missing("tools/call")) {
		t.Error("our own error is not recognized")
	}
	other := &mcp.Error{Code: mcp.CodeMissingCapability, Data: []byte(`{"requiredCapabilities":{"elicitation":{}}}`)}
	if task.IsMissing(other) {
		t.Error("what lacks elicitation is said to lack tasks")
	}
}

func TestFailure(t *testing.T) {
	task := task.Task{Error: []byte(`{"code":-32603,"message":"no","data":{"n":1.0},"own":1}`)}
	if e := task.Failure(); e.Code != -32603 || e.Message != "no" || string(e.Raw) != string(task.Error) {
		t.Errorf("Failure = %+v", e)
	}
	for _, raw := range []string{``, `null`, `{}`, `"x"`} {
		task.Error = []byte(raw)
		if e := task.Failure(); e.Code != mcp.CodeInternalError || e.Raw != nil {
			t.Errorf("the error %s is %+v", raw, e)
		}
	}
}

func TestPrepend(t *testing.T) {
	own := [][]byte{[]byte(`{"taskId":"a"}`), []byte(`{"taskId":"b"}`)}
	for list, want := range map[string]string{
		`{"tasks":[{"taskId":"c"}],"nextCursor":"n"}`: `{"tasks":[{"taskId":"a"},{"taskId":"b"},{"taskId":"c"}],"nextCursor":"n"}`,
		`{"tasks":[ ]}`: `{"tasks":[{"taskId":"a"},{"taskId":"b"}]}`,
		`{}`:            `{"tasks":[{"taskId":"a"},{"taskId":"b"}]}`,
	} {
		got, err := task.Prepend([]byte(list), own)
		if _, bad := mcp.ParseObject(got); err != nil || bad != nil || string(got) != want {
			t.Errorf("Prepend(%s) = %s, %v", list, got, err)
		}
	}
	if got, err := task.Prepend([]byte(`[ ]`), nil); err != nil || string(got) != `[ ]` {
		t.Errorf("nothing before a list: %s, %v", got, err)
	}
	if got, err := task.Prepend([]byte(`[]`), own); err == nil {
		t.Errorf("before an array: %s", got)
	}
}

// Any text from a server is read without a panic, and the result of a conversion is an
// object.
func FuzzForms(f *testing.F) {
	for _, seed := range []string{
		`{"task":{"taskId":"t","status":"working","ttl":1}}`, `{"taskId":"t","status":"completed","result":{"isError":true}}`,
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `[`, `{"a":`, `{"taskId":"\ud800"}`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		check := func(what string, out []byte, err error) {
			if err != nil || out == nil {
				return
			}
			if _, err := mcp.ParseObject(out); err != nil {
				if _, was := mcp.ParseObject(raw); was == nil {
					t.Errorf("%s of %q is no object: %q: %v", what, raw, out, err)
				}
			}
		}
		created, ok := task.FromCreated(raw)
		if ok {
			check("FromCreated", created, nil)
		}
		out, err := task.ToCreated(raw)
		check("ToCreated", out, err)
		out, err = task.ToTask(raw)
		check("ToTask", out, err)
		out, err = task.FromTask(raw, task.Working, "", nil)
		check("FromTask", out, err)
		if out := task.Declare(raw); !task.Declared(out) {
			t.Errorf("Declare(%q) = %q", raw, out)
		}
	})
}
