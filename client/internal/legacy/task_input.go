// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	// maxOpenTaskResults bounds the open tasks/result requests at one server. Each of
	// them is a pending call there.
	maxOpenTaskResults = 256

	// openTaskResultTimeout is how long a tasks/result stays open after the last
	// request of its client. It is what a parked request gets (limits.inputWait).
	openTaskResultTimeout = 10 * time.Minute

	// inputWait is how long a tasks/get waits for the input requests that the task's
	// status announces: a round trip to the server and a margin. Later ones are in the
	// next answer.
	inputWait = time.Second
)

// openTaskResult is the pending tasks/result of one task, and its Caller.
type openTaskResult struct {
	key     taskKey
	session *clientSession
	caps    []byte // the client's capabilities
	cancel  context.CancelFunc
	done    chan struct{} // closed when tasks/result has ended
	added   chan struct{} // capacity 1: an input request was added

	mu     sync.Mutex
	timer  *time.Timer // ends tasks/result when the client does not return
	prefix string      // of keys, unique among all tasks/result of the task
	serial int
	keys   []string // of inputs, in the order of arrival
	inputs map[string]*pendingInput
}

// pendingInput is an input request that waits for its answer.
type pendingInput struct {
	req    *mcp.Request
	answer chan *mcp.Result // capacity 1
}

// openResult returns the open tasks/result of a task, or nil.
func (t *serverTasks) openResult(principal, id string) *openTaskResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.results[taskKey{principal, id}]
}

// addResult adds r. It returns the open tasks/result of the same task if there is one,
// and nil if there are too many.
func (t *serverTasks) addResult(r *openTaskResult) *openTaskResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.results[r.key]; other != nil {
		return other
	}
	if len(t.results) >= maxOpenTaskResults {
		return nil
	}
	if t.results == nil {
		t.results = make(map[taskKey]*openTaskResult)
	}
	t.results[r.key] = r
	return r
}

// removeResult removes an ended tasks/result.
func (t *serverTasks) removeResult(r *openTaskResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.results, r.key)
}

// cancelResult ends the tasks/result of a task that has ended.
func (t *serverTasks) cancelResult(principal, id string) {
	if r := t.openResult(principal, id); r != nil {
		r.cancel()
	}
}

// openTaskResult returns the open tasks/result of a task, and sends one if there is
// none.
//
//nolint:contextcheck,nolintlint // a tasks/result outlives the request that begins it
func (l *Protocol) openTaskResult(s *clientSession, req *mcp.Request, id string) (*openTaskResult, error) {
	ctx, cancel := context.WithCancel(context.Background())
	own := newOpenTaskResult(taskKey{req.Principal, id}, s, req.Client, cancel)
	r := l.tasks.addResult(own)
	if r != own {
		own.end()
	}
	switch {
	case r == nil:
		return nil, l.Fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d tasks are already waiting for input", maxOpenTaskResults)
	case r != own:
		return r, nil
	}
	end := func() {
		l.tasks.removeResult(own)
		own.end()
	}
	ask := call.AboutTask(req, call.MethodTaskResult, id)
	// Ends with the task, with the session, or when the client does not return. The
	// session's close waits for it.
	ok := s.group.Launch(cancel, true, func() {
		defer end()
		_, _ = s.taskResult(ctx, ask, id, mcp.ID{}, own) // the result is fetched with the state
	})
	if !ok {
		end()
		return nil, l.Cut()
	}
	return own, nil
}

func newOpenTaskResult(key taskKey, s *clientSession, client *mcp.Peer, cancel context.CancelFunc) *openTaskResult {
	r := &openTaskResult{
		key: key, session: s, cancel: cancel, prefix: rand.Text()[:8], timer: time.AfterFunc(openTaskResultTimeout, cancel),
		done: make(chan struct{}), added: make(chan struct{}, 1), inputs: make(map[string]*pendingInput),
	}
	if client != nil {
		r.caps = client.Capabilities
	}
	return r
}

// end releases what an ended tasks/result holds.
func (r *openTaskResult) end() {
	r.cancel()
	r.timer.Stop()
	r.session.tasks.release(r)
	close(r.done)
}

// pendingInputs returns the inputRequests of a task, or nil. ended reports that its
// tasks/result has ended, so that status is out of date.
func (l *Protocol) pendingInputs(ctx context.Context, s *clientSession, req *mcp.Request, id string, status task.Status) (questions []byte, ended bool, err error) {
	r := l.tasks.openResult(req.Principal, id)
	if r == nil && status != task.InputRequired {
		return nil, false, nil
	}
	if r == nil {
		if r, err = l.openTaskResult(s, req, id); err != nil {
			return nil, false, err
		}
	}
	r.touch()
	return r.waitForInputs(ctx, status == task.InputRequired)
}

// touch records that the client has returned. The session is kept open until the
// tasks/result ends, even if the task ends before.
func (r *openTaskResult) touch() {
	r.timer.Reset(openTaskResultTimeout)
	r.session.tasks.keepUntil(r, time.Now().Add(openTaskResultTimeout+fetchedTaskTime))
}

// waitForInputs returns the inputRequests that are pending. If wait is set, it waits
// for the first one.
func (r *openTaskResult) waitForInputs(ctx context.Context, wait bool) (questions []byte, ended bool, err error) {
	late := time.NewTimer(inputWait)
	defer late.Stop()
	for {
		if questions := r.inputRequests(); questions != nil || !wait {
			return questions, call.IsClosed(r.done), nil
		}
		select {
		case <-r.added:
		case <-r.done:
			return nil, true, nil
		case <-late.C:
			return nil, false, nil
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// inputRequests encodes what is pending as inputRequests, nil if nothing is.
func (r *openTaskResult) inputRequests() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) == 0 {
		return nil
	}
	return task.Inputs(r.keys, func(key string) *mcp.Request { return r.inputs[key].req })
}

// Notify drops n: the extension has neither progress nor log messages of a task.
func (r *openTaskResult) Notify(context.Context, *mcp.Notification) error { return nil }

// Start holds an input request until the client has fetched and answered it.
func (r *openTaskResult) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if !declares(r.caps, req.Method) {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the client did not declare that it can be asked for %.60q", req.Method)
	}
	own, err := withoutTaskMark(req)
	if err != nil {
		return nil, err
	}
	ask := &pendingInput{req: own, answer: make(chan *mcp.Result, 1)}
	key := r.add(ask)
	return func() (*mcp.Result, error) {
		defer r.take(key)
		select {
		case res := <-ask.answer:
			return res, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}, nil
}

// Extension returns one that can do nothing: the request that began the task has ended.
func (r *openTaskResult) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// declares reports whether client capabilities allow a request of the method
// (2026-07-28, basic/patterns/mrtr).
func declares(caps []byte, method string) bool {
	switch method {
	case "elicitation/create", "sampling/createMessage", call.MethodRoots:
	default:
		return false
	}
	capability, _, _ := strings.Cut(method, "/")
	var declared map[string]jsontext.Value
	return json.Unmarshal(caps, &declared) == nil && declared[capability] != nil
}

// withoutTaskMark removes the related-task field: the input requests of a task do not
// carry it.
func withoutTaskMark(req *mcp.Request) (*mcp.Request, error) {
	if !req.Params.Has(mcp.MetaRelatedTask) {
		return req, nil
	}
	res, err := withoutRelated(&mcp.Result{Object: req.Params})
	if err != nil {
		return nil, err
	}
	own := *req
	own.Params = res.Object
	return &own, nil
}

// add assigns a key to an input request. Keys are never reused in a task (tasks, "Task
// Update Requests").
func (r *openTaskResult) add(ask *pendingInput) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serial++
	key := fmt.Sprintf("%s-%d", r.prefix, r.serial)
	r.keys = append(r.keys, key)
	r.inputs[key] = ask
	select {
	case r.added <- struct{}{}:
	default: // a wake-up is pending
	}
	return key
}

// take removes an input request. It returns nil if the request was answered or never
// sent.
func (r *openTaskResult) take(key string) *pendingInput {
	r.mu.Lock()
	defer r.mu.Unlock()
	ask := r.inputs[key]
	delete(r.inputs, key)
	r.keys = slices.DeleteFunc(r.keys, func(k string) bool { return k == key })
	return ask
}

// updateTask serves tasks/update. It ignores answers to what is not pending, so that a
// repeated answer does no harm.
func (l *Protocol) updateTask(ctx context.Context, s *clientSession, req *mcp.Request, id string) (*mcp.Result, error) {
	answers, err := readInputResponses(req)
	if err != nil {
		return nil, err
	}
	r := l.tasks.openResult(req.Principal, id)
	if r == nil {
		// Nothing is pending, but the server may not know the task.
		if _, err := s.call(ctx, call.AboutTask(req, call.MethodTaskGet, id), call.NoCaller{}); err != nil {
			return nil, err
		}
		return call.EmptyResult()
	}
	r.touch()
	for key, answer := range answers {
		if ask := r.take(key); ask != nil {
			ask.answer <- answer // capacity 1, sent once
		}
	}
	return call.EmptyResult()
}

// readInputResponses parses all answers before any is used.
func readInputResponses(req *mcp.Request) (map[string]*mcp.Result, error) {
	raw, err := task.Answers(req.Params.Raw(mcp.FieldInputResponses))
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses is not an object")
	}
	answers := make(map[string]*mcp.Result, len(raw))
	for key, value := range raw {
		if answers[key], err = mcp.NewResult(value); err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses: the response %.40q is not an object", key)
		}
	}
	return answers, nil
}
