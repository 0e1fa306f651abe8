// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
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

// openTaskResults are the tasks of one server that wait for input from clients that
// poll with tasks/get and answer with tasks/update. A server of 2025-11-25 sends its
// input requests while a tasks/result is pending, so one is kept open for each of these
// tasks. The zero value is ready.
type openTaskResults struct {
	mu   sync.Mutex
	open map[taskKey]*openTaskResult
}

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

// find returns the open tasks/result of a task, or nil.
func (h *openTaskResults) find(principal, id string) *openTaskResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open[taskKey{principal, id}]
}

// getOrAdd returns the open tasks/result of a task. If it is fresh, the caller must run
// it until life ends. r is nil if there are too many.
func (h *openTaskResults) getOrAdd(key taskKey, s *clientSession, caps []byte) (r *openTaskResult, life context.Context, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.open[key]; r != nil {
		return r, nil, false
	}
	if len(h.open) >= maxOpenTaskResults {
		return nil, nil, false
	}
	if h.open == nil {
		h.open = make(map[taskKey]*openTaskResult)
	}
	life, cancel := context.WithCancel(context.Background())
	r = &openTaskResult{
		key: key, session: s, caps: caps, cancel: cancel, prefix: rand.Text()[:8],
		done: make(chan struct{}), added: make(chan struct{}, 1), inputs: make(map[string]*pendingInput),
	}
	r.timer = time.AfterFunc(openTaskResultTimeout, cancel)
	r.retain(time.Now().Add(openTaskResultTimeout + fetchedTaskTime))
	h.open[key] = r
	return r, life, true
}

// remove removes an ended tasks/result.
func (h *openTaskResults) remove(r *openTaskResult) {
	r.cancel()
	r.timer.Stop()
	r.retain(time.Time{})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[r.key] == r {
		delete(h.open, r.key)
	}
	close(r.done)
}

// cancel ends the tasks/result of a task that has ended.
func (h *openTaskResults) cancel(principal, id string) {
	if r := h.find(principal, id); r != nil {
		r.cancel()
	}
}

// openTaskResult returns the open tasks/result of a task, and sends one if there is
// none.
//
//nolint:contextcheck,nolintlint // a tasks/result outlives the request that begins it
func (l *Protocol) openTaskResult(s *clientSession, req *mcp.Request, id string) (*openTaskResult, error) {
	r, life, fresh := l.openResults.getOrAdd(taskKey{req.Principal, id}, s, capabilitiesText(req.Client))
	switch {
	case r == nil:
		return nil, l.Fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d tasks are already waiting for input", maxOpenTaskResults)
	case !fresh:
		return r, nil
	}
	ask := call.AboutTask(req, call.MethodTaskResult, id)
	// Ends with the task, with the session, or when the client does not return. The
	// session's close waits for it.
	_, ok := s.group.Start(func(ctx context.Context) {
		ctx, cancel := call.Both(ctx, life)
		defer cancel()
		defer l.openResults.remove(r)
		_, _ = s.taskResult(ctx, ask, id, mcp.ID{}, r) // the result is fetched with the state
	})
	if !ok {
		l.openResults.remove(r)
		return nil, l.Cut()
	}
	return r, nil
}

func capabilitiesText(p *mcp.Peer) []byte {
	if p == nil {
		return nil
	}
	return p.Capabilities
}

// pendingInputs returns the inputRequests of a task, or nil. ended reports that its
// tasks/result has ended, so that status is out of date.
func (l *Protocol) pendingInputs(ctx context.Context, s *clientSession, req *mcp.Request, id string, status taskform.Status) (questions []byte, ended bool, err error) {
	r := l.openResults.find(req.Principal, id)
	if r == nil && status != taskform.InputRequired {
		return nil, false, nil
	}
	if r == nil {
		if r, err = l.openTaskResult(s, req, id); err != nil {
			return nil, false, err
		}
	}
	r.touch()
	return r.waitForInputs(ctx, status == taskform.InputRequired)
}

// touch records that the client has returned.
func (r *openTaskResult) touch() {
	r.timer.Reset(openTaskResultTimeout)
	r.retain(time.Now().Add(openTaskResultTimeout + fetchedTaskTime))
}

// retain keeps the session open until then, even if the task ends. The zero time
// releases it.
func (r *openTaskResult) retain(until time.Time) {
	r.session.retained.set(taskKey{r.key.principal, "hold " + r.key.id}, until)
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
	return taskform.Inputs(r.keys, func(key string) *mcp.Request { return r.inputs[key].req })
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
	var declared struct {
		Elicitation jsontext.Value `json:"elicitation"`
		Sampling    jsontext.Value `json:"sampling"`
		Roots       jsontext.Value `json:"roots"`
	}
	if err := json.Unmarshal(caps, &declared); err != nil {
		return false
	}
	switch method {
	case "elicitation/create":
		return declared.Elicitation != nil
	case "sampling/createMessage":
		return declared.Sampling != nil
	case call.MethodRoots:
		return declared.Roots != nil
	default:
		return false
	}
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
	r := l.openResults.find(req.Principal, id)
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
	raw, err := taskform.Answers(req.Params.Raw(mcp.FieldInputResponses))
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
