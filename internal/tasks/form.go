// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Status is the state of a task, by the word of either form.
type Status string

// The states. The last three are terminal.
const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// IsTerminal reports whether a task of that state never changes again.
func (s Status) IsTerminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Task is a task as the extension has it, as far as anybody here looks at it.
type Task struct {
	ID      string
	Status  Status
	Poll    time.Duration  // 0 where it is not said
	TTL     time.Duration  // 0 where it is not said, or has no end
	Created time.Time      // zero where it cannot be read
	Result  jsontext.Value // of a completed one
	Error   jsontext.Value // of a failed one
	Inputs  jsontext.Value // of one that waits for input
}

// Read reads a task in the form of the extension: the result of tools/call that is
// one, or that of tasks/get.
func Read(raw []byte) (Task, error) {
	m, err := read(raw)
	if err != nil {
		return Task{}, fmt.Errorf("task: %w", err)
	}
	t := Task{
		ID: m.text("taskId"), Status: Status(m.text("status")),
		Poll: millis(m.get("pollIntervalMs")), TTL: millis(m.get("ttlMs")),
		Result: m.get("result"), Error: m.get("error"), Inputs: m.get("inputRequests"),
	}
	if at, err := time.Parse(time.RFC3339, m.text("createdAt")); err == nil {
		t.Created = at
	}
	switch {
	case t.ID == "":
		return Task{}, fmt.Errorf("task: it has no taskId")
	case t.Status == "":
		return Task{}, fmt.Errorf("task: it has no status")
	}
	return t, nil
}

// millis reads a number of milliseconds; what is none, or beyond a year, is 0.
func millis(raw []byte) time.Duration {
	const year = 365 * 24 * time.Hour
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n <= 0 || n > float64(year/time.Millisecond) {
		return 0
	}
	return time.Duration(n * float64(time.Millisecond))
}

// Failure returns the error of a failed task. One without any is said to have
// failed, in words of ours.
func (t *Task) Failure() *mcp.Error {
	var e struct {
		Code    int64          `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(t.Error, &e); err != nil || e.Code == 0 {
		return mcp.Errorf(mcp.CodeInternalError, "the task failed without saying why")
	}
	return &mcp.Error{Code: e.Code, Message: e.Message, Data: []byte(e.Data), Raw: []byte(t.Error)}
}

// isError reports whether a result of a tool says that the tool has failed.
func isError(result []byte) bool { return string(find(result, "isError")) == "true" }

// FromCreated turns the CreateTaskResult of 2025-11-25 into that of the extension.
// ok is false for a result that is none.
func FromCreated(raw []byte) (result []byte, ok bool) {
	m, err := read(raw)
	if err != nil {
		return nil, false
	}
	task, err := read(m.get("task"))
	if err != nil || task.text("taskId") == "" {
		return nil, false
	}
	out := members{{"resultType", jsontext.Value(`"` + mcp.ResultTask + `"`)}}
	out = append(out, modern(task, Status(task.text("status")))...)
	for _, rest := range m.without("task") {
		out = out.with(rest.name, rest.value)
	}
	return out.bytes(), true
}

// FromTask turns a task of 2025-11-25 into one of the extension that has the given
// state, and behind it the members that belong to the state.
func FromTask(raw []byte, status Status, detail string, value []byte) ([]byte, error) {
	m, err := read(raw)
	if err != nil {
		return nil, err
	}
	out := modern(m, status)
	if detail != "" {
		out = out.with(detail, value)
	}
	return out.bytes(), nil
}

// modern renames what the extension calls otherwise. A time to live that is not
// said has no end.
func modern(task members, status Status) members {
	out := task.renamed("ttl", "ttlMs").renamed("pollInterval", "pollIntervalMs")
	out = out.with("status", []byte(strconv.Quote(string(status))))
	if out.get("ttlMs") == nil {
		out = out.with("ttlMs", []byte("null"))
	}
	return out
}

// ToCreated turns the CreateTaskResult of the extension into that of 2025-11-25.
func ToCreated(raw []byte) ([]byte, error) {
	m, err := read(raw)
	if err != nil {
		return nil, err
	}
	out := members{{"task", legacy(m.without("_meta")).bytes()}}
	if meta := m.get("_meta"); meta != nil {
		out = out.with("_meta", meta)
	}
	return out.bytes(), nil
}

// ToTask turns a task of the extension into one of 2025-11-25, which has neither
// its result nor what it asks for.
func ToTask(raw []byte) ([]byte, error) {
	m, err := read(raw)
	if err != nil {
		return nil, err
	}
	return legacy(m).bytes(), nil
}

// legacy: a tool that says isError has failed (2025-11-25,
// basic/utilities/tasks, "Task Execution Errors").
func legacy(m members) members {
	if m.text("status") == string(Completed) && isError(m.get("result")) {
		m = m.with("status", []byte(`"failed"`))
	}
	out := m.without("resultType", "result", "error", "inputRequests", "cacheScope").
		renamed("ttlMs", "ttl").renamed("pollIntervalMs", "pollInterval")
	if out.get("ttl") == nil {
		out = out.with("ttl", []byte("null"))
	}
	return out
}

// TTL reads what a client asks for in params.task: how long the task is to be kept.
// 0 is no wish.
func TTL(task []byte) time.Duration { return millis(find(task, "ttl")) }

// Prepend puts tasks before those of a result of tasks/list.
func Prepend(list []byte, own [][]byte) ([]byte, error) {
	if len(own) == 0 {
		return list, nil
	}
	m, err := read(list)
	if err != nil {
		return nil, err
	}
	all := append([]byte{'['}, bytes.Join(own, []byte{','})...)
	for rest := range mcp.Elements(m.get("tasks")) {
		all = append(append(all, ','), rest...)
	}
	return m.with("tasks", append(all, ']')).bytes(), nil
}

// StatusOf reads the state of a task of either form.
func StatusOf(raw []byte) Status {
	m, err := read(raw)
	if err != nil {
		return ""
	}
	return Status(m.text("status"))
}

// ErrorJSON returns an error as it stands in a failed task.
func ErrorJSON(e *mcp.Error) []byte {
	if e.Raw != nil {
		return e.Raw
	}
	out := strconv.AppendInt([]byte(`{"code":`), e.Code, 10)
	out = mcp.AppendString(append(out, `,"message":`...), e.Message)
	if e.Data != nil {
		out = append(append(out, `,"data":`...), e.Data...)
	}
	return append(out, '}')
}

// Inputs writes inputRequests: the parameters of each question by its key, in the
// order of the keys given.
func Inputs(keys []string, ask func(key string) *mcp.Request) []byte {
	var all members
	for _, key := range keys {
		req := ask(key)
		q := members{{"method", mcp.AppendString(nil, req.Method)}}
		if !req.Params.IsZero() {
			q = q.with("params", req.Params.Bytes())
		}
		all = append(all, member{key, q.bytes()})
	}
	return all.bytes()
}

// Answers reads inputResponses.
func Answers(raw []byte) (map[string][]byte, error) {
	m, err := read(raw)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]byte, len(m))
	for _, one := range m {
		all[one.name] = one.value
	}
	return all, nil
}

// RelatedID reads the task that a message is related to, out of the member of its
// _meta.
func RelatedID(related []byte) string {
	m, err := read(related)
	if err != nil {
		return ""
	}
	return m.text("taskId")
}

// Notice returns what notifications/tasks says of a task: the task as tasks/get has
// it, without what belongs to a result.
func Notice(result []byte) ([]byte, error) {
	m, err := read(result)
	if err != nil {
		return nil, err
	}
	return m.without("resultType", "_meta").bytes(), nil
}
