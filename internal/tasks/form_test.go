// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks_test

import (
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Only the members that the two forms name differently change; all others keep their
// bytes, their order and the text of their numbers.
func TestForms(t *testing.T) {
	toCreated := func(raw string) (string, error) { b, err := tasks.ToCreated([]byte(raw)); return string(b), err }
	fromCreated := func(raw string) (string, error) { b, _ := tasks.FromCreated([]byte(raw)); return string(b), nil }
	toTask := func(raw string) (string, error) { b, err := tasks.ToTask([]byte(raw)); return string(b), err }
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
	got, err := tasks.FromTask([]byte(legacy), tasks.Completed, "result", []byte(`{"isError":true}`))
	want := `{"taskId":"t","status":"completed","ttlMs":60000,"pollIntervalMs":5,"statusMessage":"no","result":{"isError":true}}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	if _, err := tasks.FromTask([]byte(`[]`), tasks.Working, "", nil); err == nil {
		t.Error("an array is taken for a task")
	}
}

func TestRead(t *testing.T) {
	got, err := tasks.Read([]byte(`{"taskId":"t","status":"working","createdAt":"2026-07-28T10:00:00Z","ttlMs":60000,"pollIntervalMs":250.5}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "t" || got.Status != tasks.Working || got.TTL != time.Minute || got.Poll != 250500*time.Microsecond || got.Created.IsZero() {
		t.Errorf("Read = %+v", got)
	}
	for _, raw := range []string{`[]`, `{"status":"working"}`, `{"taskId":"t"}`, `{"taskId":1,"status":"working"}`, `{"taskId":"t","taskId":"u","status":"working"}`} {
		if got, err := tasks.Read([]byte(raw)); err == nil {
			t.Errorf("Read(%s) = %+v, want an error", raw, got)
		}
	}
	for _, raw := range []string{`-1`, `"60"`, `1e300`, `null`, `{}`} {
		if got, err := tasks.Read([]byte(`{"taskId":"t","status":"working","ttlMs":` + raw + `}`)); err != nil || got.TTL != 0 {
			t.Errorf("a time to live of %s is %v, %v", raw, got.TTL, err)
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
	} {
		if got := string(tasks.ModernOffer([]byte(tt.caps))); got != tt.modern {
			t.Errorf("ModernOffer(%s) = %s, want %s", tt.caps, got, tt.modern)
		}
		if got := string(tasks.WithLegacyOffer([]byte(tt.caps))); got != tt.legacy {
			t.Errorf("WithLegacyOffer(%s) = %s, want %s", tt.caps, got, tt.legacy)
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
	} {
		got := tasks.Declare([]byte(tt.caps))
		if string(got) != tt.want || !tasks.Declared(got) {
			t.Errorf("Declare(%s) = %s, want %s", tt.caps, got, tt.want)
		}
	}
}

func TestMissing(t *testing.T) {
	if !tasks.IsMissing(tasks.Missing("tools/call")) {
		t.Error("our own error is not recognized")
	}
	other := &mcp.Error{Code: mcp.CodeMissingCapability, Data: []byte(`{"requiredCapabilities":{"elicitation":{}}}`)}
	if tasks.IsMissing(other) {
		t.Error("what lacks elicitation is said to lack tasks")
	}
}

func TestFailure(t *testing.T) {
	task := tasks.Task{Error: []byte(`{"code":-32603,"message":"no","data":{"n":1.0},"own":1}`)}
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
		got, err := tasks.Prepend([]byte(list), own)
		if _, bad := mcp.ParseObject(got); err != nil || bad != nil || string(got) != want {
			t.Errorf("Prepend(%s) = %s, %v", list, got, err)
		}
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
		created, ok := tasks.FromCreated(raw)
		if ok {
			check("FromCreated", created, nil)
		}
		out, err := tasks.ToCreated(raw)
		check("ToCreated", out, err)
		out, err = tasks.ToTask(raw)
		check("ToTask", out, err)
		out, err = tasks.FromTask(raw, tasks.Working, "", nil)
		check("FromTask", out, err)
		if out := tasks.Declare(raw); !tasks.Declared(out) {
			t.Errorf("Declare(%q) = %q", raw, out)
		}
	})
}
