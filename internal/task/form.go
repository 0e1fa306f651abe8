// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Status is the state of a task, named alike in both forms.
type Status string

// The states. The last three are terminal.
const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// IsTerminal reports whether a task in this state never changes again.
func (s Status) IsTerminal() bool { return s == Completed || s == Failed || s == Cancelled }

// A Task is a task in the form of the extension, with the members that the gateway
// uses.
type Task struct {
	ID      string
	Status  Status
	Poll    time.Duration  // 0 if absent
	TTL     time.Duration  // 0 if absent or unlimited
	Created time.Time      // zero if invalid
	Result  jsontext.Value // if completed
	Error   jsontext.Value // if failed
	Inputs  jsontext.Value // if input is required
}

// Read reads a task in the form of the extension: a result of tools/call that is a
// task, or one of tasks/get.
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
		return Task{}, fmt.Errorf("task: taskId is missing")
	case t.Status == "":
		return Task{}, fmt.Errorf("task: status is missing")
	}
	return t, nil
}

// millis reads a number of milliseconds; for any other value, or more than a year, it
// returns 0.
func millis(raw []byte) time.Duration {
	const year = 365 * 24 * time.Hour
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n <= 0 || n > float64(year/time.Millisecond) {
		return 0
	}
	return time.Duration(n * float64(time.Millisecond))
}

// Failure returns the error of a failed task, or a generic one if it has none.
func (t *Task) Failure() *mcp.Error {
	var e struct {
		Code    int64          `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(t.Error, &e); err != nil || e.Code == 0 {
		return mcp.Errorf(mcp.CodeInternalError, "the task failed without an error")
	}
	return &mcp.Error{Code: e.Code, Message: e.Message, Data: []byte(e.Data), Raw: []byte(t.Error)}
}

// isError reports whether a tool's result has isError.
func isError(result []byte) bool { return string(find(result, "isError")) == "true" }

// FromCreated converts a CreateTaskResult of 2025-11-25 into one of the extension. ok
// is false for any other result.
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
	out = append(out, toModern(task, Status(task.text("status")))...)
	for _, rest := range m.without("task") {
		out = out.with(rest.name, rest.value)
	}
	return out.bytes(), true
}

// FromTask converts a task of 2025-11-25 into one of the extension with the given
// state, followed by the member that belongs to the state.
func FromTask(raw []byte, status Status, detail string, value []byte) ([]byte, error) {
	m, err := read(raw)
	if err != nil {
		return nil, err
	}
	out := toModern(m, status)
	if detail != "" {
		out = out.with(detail, value)
	}
	return out.bytes(), nil
}

// toModern renames the members that the extension names differently. An absent TTL
// means unlimited.
func toModern(task members, status Status) members {
	out := task.renamed("ttl", "ttlMs").renamed("pollInterval", "pollIntervalMs")
	out = out.with("status", []byte(strconv.Quote(string(status))))
	if out.get("ttlMs") == nil {
		out = out.with("ttlMs", []byte("null"))
	}
	return out
}

// ToCreated converts a CreateTaskResult of the extension into one of 2025-11-25.
func ToCreated(raw []byte) ([]byte, error) {
	m, err := read(raw)
	if err != nil {
		return nil, err
	}
	out := members{{"task", toLegacy(m.without("_meta")).bytes()}}
	if meta := m.get("_meta"); meta != nil {
		out = out.with("_meta", meta)
	}
	return out.bytes(), nil
}

// ToTask converts a task of the extension into one of 2025-11-25, without its result
// and its input requests.
func ToTask(raw []byte) ([]byte, error) {
	m, err := read(raw)
	if err != nil {
		return nil, err
	}
	return toLegacy(m).bytes(), nil
}

// toLegacy is ToTask for members. A tool result with isError means a failed task
// (2025-11-25, basic/utilities/tasks, "Task Execution Errors").
func toLegacy(m members) members {
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

// TTL reads the TTL that a client requests in params.task, or 0 if absent.
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
	for rest := range jsonscan.Elements(m.get("tasks")) {
		all = append(append(all, ','), rest...)
	}
	return m.with("tasks", append(all, ']')).bytes(), nil
}

// StatusOf reads the state of a task of either form.
func StatusOf(raw []byte) Status { return Status(textOf(find(raw, "status"))) }

// ErrorJSON returns an error as it appears in a failed task.
func ErrorJSON(e *mcp.Error) []byte {
	if e.Raw != nil {
		return e.Raw
	}
	out := strconv.AppendInt([]byte(`{"code":`), e.Code, 10)
	out = jsonscan.AppendString(append(out, `,"message":`...), e.Message)
	if e.Data != nil {
		out = append(append(out, `,"data":`...), e.Data...)
	}
	return append(out, '}')
}

// Inputs encodes inputRequests: the request of each key, in the order of keys.
func Inputs(keys []string, ask func(key string) *mcp.Request) []byte {
	var all members
	for _, key := range keys {
		req := ask(key)
		q := members{{"method", jsonscan.AppendString(nil, req.Method)}}
		if !req.Params.IsZero() {
			q = q.with("params", req.Params.Bytes())
		}
		all = append(all, member{key, q.bytes()})
	}
	return all.bytes()
}

// Answers decodes inputResponses.
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

// RelatedID returns the task id in the related-task member of a message's _meta.
func RelatedID(related []byte) string { return textOf(find(related, "taskId")) }

// Notice returns the params of notifications/tasks for a task: the result of tasks/get
// without the members of a result.
func Notice(result []byte) ([]byte, error) {
	m, err := read(result)
	if err != nil {
		return nil, err
	}
	return m.without("resultType", "_meta").bytes(), nil
}
