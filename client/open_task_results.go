// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	// maxHolds bounds the tasks of one server that wait for input of clients which
	// openTaskResult nothing open themselves. Each is a call at the server.
	maxHolds = 256

	// holdTime is how long a task is held open whose client does not come back. It is
	// what a parked request is given (limits.inputWait).
	holdTime = 10 * time.Minute

	// holdGather is how long a look at a task waits for the questions that its server
	// has announced: the way to the server and back, with some to spare. What comes
	// later is there at the next look.
	holdGather = time.Second
)

// openTaskResults are the tasks that wait for input, of clients that ask for the state of a
// task and answer by tasks/update. A server of 2025-11-25 puts its questions while
// tasks/result waits, so that one is held open for each. The zero value is ready.
type openTaskResults struct {
	mu   sync.Mutex
	open map[taskKey]*openTaskResult
}

// openTaskResult is one of them: the Caller of a tasks/result.
type openTaskResult struct {
	key  taskKey
	s    *legacySession
	caps []byte // of the client, which says what it can be asked
	end  context.CancelFunc
	over chan struct{} // closed when tasks/result has ended
	news chan struct{} // capacity 1: there is a question

	mu     sync.Mutex
	timer  *time.Timer // ends the hold when nobody comes back
	prefix string      // of keys: no other hold of the task has the same
	serial int
	keys   []string // of questions, in the order in which they came
	asks   map[string]*pendingInput
}

// pendingInput is a question that waits for its answer.
type pendingInput struct {
	req    *mcp.Request
	answer chan *mcp.Result // capacity 1
}

// find returns the hold of a task, nil where there is none.
func (h *openTaskResults) find(principal, id string) *openTaskResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open[taskKey{principal, id}]
}

// claim returns the hold of a task, and what ends a new one; nil where there is no
// room.
func (h *openTaskResults) claim(key taskKey, s *legacySession, caps []byte) (one *openTaskResult, life context.Context, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.open[key]; one != nil {
		return one, nil, false
	}
	if len(h.open) >= maxHolds {
		return nil, nil, false
	}
	if h.open == nil {
		h.open = make(map[taskKey]*openTaskResult)
	}
	life, cancel := context.WithCancel(context.Background())
	one = &openTaskResult{
		key: key, s: s, caps: caps, end: cancel, prefix: rand.Text()[:8],
		over: make(chan struct{}), news: make(chan struct{}, 1), asks: make(map[string]*pendingInput),
	}
	one.timer = time.AfterFunc(holdTime, cancel)
	one.pin(time.Now().Add(holdTime + anchorRest))
	h.open[key] = one
	return one, life, true
}

// finish forgets a hold that has ended.
func (h *openTaskResults) finish(one *openTaskResult) {
	one.end()
	one.timer.Stop()
	one.pin(time.Time{})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[one.key] == one {
		delete(h.open, one.key)
	}
	close(one.over)
}

// drop ends the hold of a task that has ended.
func (h *openTaskResults) drop(principal, id string) {
	if one := h.find(principal, id); one != nil {
		one.end()
	}
}

// holdTask returns the hold of a task, begun if need be.
//
//nolint:contextcheck,nolintlint // a hold outlives the request that happens to begin it
func (l *legacy) holdTask(s *legacySession, req *mcp.Request, id string) (*openTaskResult, error) {
	one, life, fresh := l.holds.claim(taskKey{req.Principal, id}, s, capabilitiesText(req.Client))
	switch {
	case one == nil:
		return nil, l.fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d tasks wait for input", maxHolds)
	case !fresh:
		return one, nil
	}
	ask := aboutTask(req, methodTaskResult, id)
	// Ends with the task, when nobody comes back, or with the session, whose close
	// waits for it.
	_, ok := s.tasks.start(func(ctx context.Context) {
		ctx, cancel := both(ctx, life)
		defer cancel()
		defer l.holds.finish(one)
		_, _ = s.taskResult(ctx, ask, id, mcp.ID{}, one) // what it ends with is fetched with the state
	})
	if !ok {
		l.holds.finish(one)
		return nil, l.cut()
	}
	return one, nil
}

func capabilitiesText(p *mcp.Peer) []byte {
	if p == nil {
		return nil
	}
	return p.Capabilities
}

// inputsOf returns what a task asks for, nil where that is nothing. over says that
// its tasks/result has ended: the task is another by now.
func (l *legacy) inputsOf(ctx context.Context, s *legacySession, req *mcp.Request, id string, status taskform.Status) (questions []byte, over bool, err error) {
	one := l.holds.find(req.Principal, id)
	if one == nil && status != taskform.InputRequired {
		return nil, false, nil
	}
	if one == nil {
		if one, err = l.holdTask(s, req, id); err != nil {
			return nil, false, err
		}
	}
	one.visit()
	return one.gather(ctx, status == taskform.InputRequired)
}

// visit notes that the client has come back.
func (h *openTaskResult) visit() {
	h.timer.Reset(holdTime)
	h.pin(time.Now().Add(holdTime + anchorRest))
}

// pin keeps the session of the hold open, whatever becomes of the task; the zero time
// lets go.
func (h *openTaskResult) pin(until time.Time) {
	h.s.pins.set(taskKey{h.key.principal, "hold " + h.key.id}, until)
}

// gather returns the questions that are open. Where there must be some it waits for
// the first.
func (h *openTaskResult) gather(ctx context.Context, wait bool) (questions []byte, over bool, err error) {
	late := time.NewTimer(holdGather)
	defer late.Stop()
	for {
		if questions := h.questions(); questions != nil || !wait {
			return questions, isClosed(h.over), nil
		}
		select {
		case <-h.news:
		case <-h.over:
			return nil, true, nil
		case <-late.C:
			return nil, false, nil
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// questions writes what is open as inputRequests, nil for nothing.
func (h *openTaskResult) questions() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.keys) == 0 {
		return nil
	}
	return taskform.Inputs(h.keys, func(key string) *mcp.Request { return h.asks[key].req })
}

// Notify drops: the extension has neither progress nor logs of a task.
func (h *openTaskResult) Notify(context.Context, *mcp.Notification) error { return nil }

// Ask keeps a question until its client has fetched and answered it.
func (h *openTaskResult) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	if !canBeAsked(h.caps, req.Method) {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the client did not declare that it can be asked for %.60q", req.Method)
	}
	own, err := withoutTaskMark(req)
	if err != nil {
		return nil, err
	}
	ask := &pendingInput{req: own, answer: make(chan *mcp.Result, 1)}
	key := h.add(ask)
	defer h.take(key)
	select {
	case res := <-ask.answer:
		return res, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// canBeAsked reports whether a client has declared what it is to be asked
// (2026-07-28, basic/patterns/mrtr).
func canBeAsked(caps []byte, method string) bool {
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
	case methodRoots:
		return declared.Roots != nil
	default:
		return false
	}
}

// withoutTaskMark: inside of a task, its questions are not marked with it.
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

// add gives a question its key, which no other question of the task ever has
// (tasks, "Task Update Requests").
func (h *openTaskResult) add(ask *pendingInput) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serial++
	key := fmt.Sprintf("%s-%d", h.prefix, h.serial)
	h.keys = append(h.keys, key)
	h.asks[key] = ask
	select {
	case h.news <- struct{}{}:
	default: // somebody will look
	}
	return key
}

// take removes a question, nil where it is answered or was never asked.
func (h *openTaskResult) take(key string) *pendingInput {
	h.mu.Lock()
	defer h.mu.Unlock()
	ask := h.asks[key]
	delete(h.asks, key)
	h.keys = slices.DeleteFunc(h.keys, func(k string) bool { return k == key })
	return ask
}

// updateTask serves tasks/update. What answers nothing that is open is ignored, so
// that an answer which comes twice does no harm.
func (l *legacy) updateTask(ctx context.Context, s *legacySession, req *mcp.Request, id string) (*mcp.Result, error) {
	answers, err := readAnswers(req)
	if err != nil {
		return nil, err
	}
	one := l.holds.find(req.Principal, id)
	if one == nil {
		// Nothing is open; but whether there is such a task the server knows.
		if _, err := s.call(ctx, aboutTask(req, methodTaskGet, id), noCaller{}); err != nil {
			return nil, err
		}
		return emptyResult()
	}
	one.visit()
	for key, answer := range answers {
		if ask := one.take(key); ask != nil {
			ask.answer <- answer // has room for the only one
		}
	}
	return emptyResult()
}

// readAnswers reads all answers before any is used.
func readAnswers(req *mcp.Request) (map[string]*mcp.Result, error) {
	raw, err := taskform.Answers(req.Params.Raw(mcp.FieldInputResponses))
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses is no object")
	}
	answers := make(map[string]*mcp.Result, len(raw))
	for key, value := range raw {
		if answers[key], err = mcp.NewResult(value); err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses: the answer %.40q is no object", key)
		}
	}
	return answers, nil
}
