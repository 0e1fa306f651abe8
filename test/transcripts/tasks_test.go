// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// serveTask answers requests about one task of a backend from the state in the
// transcript. The backend implements the extension io.modelcontextprotocol/tasks; our
// server converts it to 2025-11-25 if that is its era.
func (b *backend) serveTask(life *instance, req *mcp.Request) (*mcp.Result, error) {
	id, _ := req.Params.Text(mcp.FieldTaskID)
	state, ok := b.taskState(id)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown task")
	}
	switch req.Method {
	case "tasks/get":
		return mcp.NewResult([]byte(state.String()))
	case "tasks/update":
		b.show(life, id, "update "+compact(req.Params.Raw(mcp.FieldInputResponses)))
	default:
		b.show(life, id, "cancel")
		if s := state.text("status"); s == "working" || s == "input_required" {
			b.setTask(id, `{"status":"cancelled"}`)
		}
	}
	return mcp.NewResult([]byte("{}"))
}

func (b *backend) taskState(id string) (object, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state, ok := b.tasks[id]
	return state, ok && !state.has("gone")
}

// setTask changes members of a task. A new one has the status working; one with the
// member "gone" no longer exists.
func (b *backend) setTask(id, members string) bool {
	changes, err := parseObject([]byte(members))
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state, ok := b.tasks[id]
	if !ok {
		const at = `"2026-07-28T10:00:00Z"`
		state = object{}.with("taskId", string(quoted(id))).with("status", `"working"`).
			with("createdAt", at).with("lastUpdatedAt", at).with("ttlMs", "60000").with("pollIntervalMs", "500")
	}
	for _, m := range changes {
		if state = state.with(m.name, string(m.value)); string(m.value) == "null" {
			state = state.without(m.name)
		}
	}
	if b.tasks == nil {
		b.tasks = make(map[string]object)
	}
	b.tasks[id] = state
	return true
}

// stepTask answers a call with a task. In an era with explicit requests for tasks, the
// client has requested one.
func (b *backend) stepTask(id, members string) step {
	return func(_ context.Context, _ *scriptedCall, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if !strings.Contains(string(req.Client.Capabilities), `"io.modelcontextprotocol/tasks"`) {
			return nil, &mcp.Error{
				Code: mcp.CodeMissingCapability, Message: "only as a task",
				Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`),
			}
		}
		if !b.setTask(id, members) {
			return nil, fmt.Errorf("not a task: %s", members)
		}
		state, _ := b.taskState(id)
		return mcp.NewResult([]byte(`{"resultType":"task",` + state.String()[1:]))
	}
}

// notifyTask notifies the listens for a task of its state.
func (b *backend) notifyTask(id string) bool {
	state, ok := b.taskState(id)
	if !ok {
		return true // it no longer exists; no notification
	}
	for _, listener := range b.followers(id) {
		listener.ch <- notice{"notifications/tasks", state.String()}
	}
	return true
}

func (b *backend) followers(id string) []*watcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*watcher
	for listener := range b.listens {
		if slices.Contains(listener.tasks, id) {
			all = append(all, listener)
		}
	}
	return all
}

// follow listens for tasks, by their names in the transcript.
func (c *transcriptClient) follow(arg string) bool {
	ids := readURIs(c.showAliases(arg))
	raw, err := json.Marshal(ids)
	if err != nil || len(ids) == 0 || !c.in.modern() {
		return false
	}
	return c.sendWatch("follow "+arg, "subscriptions/listen", `{"notifications":{"taskIds":`+string(raw)+`}}`, ids)
}

// isFollow reports whether an exchange listens for tasks.
func (x *exchange) isFollow() bool { return strings.HasPrefix(x.label, "follow ") }

// nameOf returns the transcript's name of a task.
func (c *transcriptClient) nameOf(id string) string {
	return strings.Trim(c.hideAliases(string(quoted(id))), `"`)
}

func (c *transcriptClient) showFollowLocked(id string, agreed bool) {
	if agreed {
		c.show(c.nameOf(id), "agreed")
		return
	}
	c.show(c.nameOf(id), "not agreed")
}

// followedLocked receives the state of a task, which must be in the filter of a listen.
func (c *transcriptClient) followedLocked(x *exchange, params object) {
	id := params.text("taskId")
	if !x.isFollow() || !slices.Contains(x.watch, id) {
		c.breach(x, "the state of %s, which is not listened for", id)
	}
	c.nameInputs(params)
	c.show(c.nameOf(id), "is "+params.without("taskId").String())
}

var taskIDs = regexp.MustCompile(`"taskId":"([^"$]+)"`)

// nameTasks replaces the ids of tasks in the messages to a client: the gateway makes
// them, and they differ each time. A transcript names the first $task, the others
// $task2 and so on.
func (c *transcriptClient) nameTasks(text string) string {
	for _, m := range taskIDs.FindAllStringSubmatch(text, -1) {
		c.alias("$task", m[1])
	}
	return c.hideAliases(text)
}

// nameInputs does so with the keys of a task's inputRequests: $input, $input2.
func (c *transcriptClient) nameInputs(result object) {
	questions, err := parseObject(result.get("inputRequests"))
	if err != nil {
		return
	}
	for _, q := range questions {
		c.alias("$input", q.name)
	}
}

func (c *transcriptClient) alias(kind, value string) {
	n := 1
	for _, a := range c.aliases {
		if a.value == value {
			return
		}
		if strings.TrimRight(a.name, "0123456789") == kind {
			n++
		}
	}
	name := kind
	if n > 1 {
		name = fmt.Sprintf("%s%d", kind, n)
	}
	c.aliases = append(c.aliases, alias{name, value})
}

// alias is the transcript's name of a value that differs each time.
type alias struct{ name, value string }

func (c *transcriptClient) hideAliases(text string) string {
	for _, a := range c.aliases {
		text = strings.ReplaceAll(text, `"`+a.value+`"`, `"`+a.name+`"`)
	}
	return text
}

// showAliases replaces the names by the values, in the lines of the client.
func (c *transcriptClient) showAliases(text string) string {
	for _, a := range c.aliases {
		text = strings.ReplaceAll(text, `"`+a.name+`"`, `"`+a.value+`"`)
	}
	return text
}
