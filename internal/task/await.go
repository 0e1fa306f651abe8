// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// How often a task is polled. The interval that its server suggests is limited to these
// bounds: shorter ones cause needless load, longer ones delay the result needlessly.
const (
	defaultPoll = time.Second
	minPoll     = 50 * time.Millisecond
	maxPoll     = time.Minute
)

const (
	// maxFailures is how many polls in a row may fail with a gateway error before Await
	// fails.
	maxFailures = 3

	// maxInputs bounds the open input requests of a task, with those that the server no
	// longer lists: each is a goroutine and a dialogue with a user.
	maxInputs = 16
)

// Interval returns the time to wait before the next poll of a task that suggests an
// interval.
func Interval(suggested time.Duration) time.Duration {
	if suggested == 0 {
		return defaultPoll
	}
	return min(max(suggested, minPoll), maxPoll)
}

// Await polls a task of h until it has ended, and returns what the original request
// would have returned. It sends the task's input requests to the caller, each once, and
// answers them with tasks/update. The requests to h have the sender of like; nothing
// else of like is used.
//
// Each successful poll is a sign of life: it calls Pulse of the caller. Await returns
// when the context ends, with its error, and does not cancel the task. An error that
// leaves the task running wraps a [LeftError], and is as AfterStart returns it.
func Await(ctx context.Context, h mcp.Handler, like *mcp.Request, id string, caller mcp.Caller) (*mcp.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &wait{handler: h, like: like, id: id, caller: caller, asked: make(map[string]bool), sent: make(map[string]sent), ready: make(chan answers)}
	defer w.asking.Wait()
	defer cancel()
	res, err := w.run(ctx)
	if err != nil && !w.ended {
		return nil, &LeftError{Err: AfterStart(err)}
	}
	return res, err
}

// A LeftError is the error of an Await that returned before the task had ended.
type LeftError struct{ Err error }

// Error returns the text of the error.
func (e *LeftError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *LeftError) Unwrap() error { return e.Err }

// AfterStart returns the error of a request that its server has begun to work on, as a task or in
// rounds, if a later request for it has failed with err. The error does not permit that the first
// one is sent again: its tool runs, whatever became of the later one.
func AfterStart(err error) error {
	f, ok := errors.AsType[*mcp.Fault](err)
	if !ok {
		if e, ok := err.(*mcp.Error); ok && isNotDispatched(e) { //nolint:errorlint // only the server's own error
			return &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Message: "a later part of the request was not forwarded", Cause: e}
		}
		return err
	}
	if f.Outcome != mcp.NotDispatched {
		return err
	}
	late := *f
	late.Outcome = mcp.Unknown
	if late.Code == mcp.CodeBackendUnavailable {
		late.Code = mcp.CodeBackendFailed
	}
	return &late
}

// isNotDispatched reports whether a server that is itself a gateway reports that it did
// not forward the request. That is true of the last one, but not of the whole.
func isNotDispatched(e *mcp.Error) bool {
	var data struct {
		Outcome mcp.Outcome `json:"outcome"`
	}
	return len(e.Data) > 0 && json.Unmarshal(e.Data, &data) == nil && data.Outcome == mcp.NotDispatched
}

// wait is one call of Await.
type wait struct {
	handler mcp.Handler
	like    *mcp.Request
	id      string
	caller  mcp.Caller

	asked    map[string]bool // keys that were sent to the caller
	sent     map[string]sent // answers that were sent to the server, by key
	ready    chan answers
	asking   sync.WaitGroup
	open     int // questions without an answer
	failures int
	ended    bool // the task has ended
}

// answers are the caller's answers to the questions of one poll.
type answers struct {
	values map[string]jsontext.Value
	err    error
}

// sent is an answer and the time when it was last sent to the server.
type sent struct {
	value jsontext.Value
	at    time.Time
}

func (w *wait) run(ctx context.Context) (*mcp.Result, error) {
	for {
		t, err := w.poll(ctx)
		if err != nil {
			return nil, err
		}
		w.ended = t.Status.IsTerminal()
		switch t.Status {
		case Completed:
			return mcp.NewResult(t.Result)
		case Failed:
			return nil, t.Failure()
		case Cancelled:
			return nil, mcp.Errorf(mcp.CodeInternalError, "the task was cancelled")
		case InputRequired:
			if err := w.handleInputs(ctx, &t); err != nil {
				return nil, err
			}
		default:
		}
		if err := w.sleep(ctx, Interval(t.Poll)); err != nil {
			return nil, err
		}
	}
}

// poll polls the task. A failure that may be transient does not mean that the task has
// failed.
func (w *wait) poll(ctx context.Context) (Task, error) {
	for {
		res, err := w.serve(ctx, "tasks/get", nil)
		if err == nil {
			w.failures = 0
			w.caller.Extension().Pulse()
			return Read(res.Bytes())
		}
		if w.failures++; ctx.Err() != nil || !isTransient(err) || w.failures >= maxFailures {
			return Task{}, err
		}
		if err := w.sleep(ctx, defaultPoll); err != nil {
			return Task{}, err
		}
	}
}

// isTransient reports whether an error is the gateway's, about the way to the server,
// and not the server's own.
func isTransient(err error) bool {
	_, ok := errors.AsType[*mcp.Fault](err)
	return ok
}

// serve sends one request about the task.
func (w *wait) serve(ctx context.Context, method string, inputs []byte) (*mcp.Result, error) {
	params := members{{"taskId", jsonscan.AppendString(nil, w.id)}}
	if inputs != nil {
		params = params.with("inputResponses", inputs)
	}
	req, err := mcp.NewRequest(method, params.bytes())
	if err != nil {
		return nil, err
	}
	req.Client, req.Principal, req.Scope, req.LogLevel = w.like.Client, w.like.Principal, w.like.Scope, w.like.LogLevel
	req.Identity, req.Profile = w.like.Identity, w.like.Profile
	res, err := w.handler.Serve(ctx, req, w.caller)
	if err == nil && res == nil {
		return nil, mcp.Errorf(mcp.CodeInternalError, "%s returned no result", method)
	}
	return res, err
}

// sleep waits until the next poll. Answers that arrive meanwhile are sent at once,
// followed by a poll.
func (w *wait) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case a := <-w.ready:
		if a.err != nil {
			return a.err
		}
		w.open -= len(a.values)
		return w.update(ctx, a.values)
	}
}

// handleInputs sends new input requests to the caller, and sends answers again that the
// server still asks for: they may have been lost, and a server ignores an answer that
// it already has (tasks, "Task Update Requests").
func (w *wait) handleInputs(ctx context.Context, t *Task) error {
	var questions map[string]question
	if err := json.Unmarshal(t.Inputs, &questions); err != nil {
		return mcp.Errorf(mcp.CodeInternalError, "the task's inputRequests are invalid")
	}
	listed := len(questions)
	again := make(map[string]jsontext.Value)
	for key := range questions {
		old, answered := w.sent[key]
		if answered && time.Since(old.at) >= Interval(t.Poll) {
			again[key] = old.value
		}
		if w.asked[key] {
			delete(questions, key)
		}
		w.asked[key] = true
	}
	w.open += len(questions)
	if open := max(listed, w.open); open > maxInputs {
		return mcp.Errorf(mcp.CodeInternalError, "the task has %d open input requests, which is too many", open)
	}
	if len(questions) > 0 {
		// Ends with the answers or with ctx; Await waits for it.
		w.asking.Go(func() { w.ask(ctx, ordered(t.Inputs, questions)) })
	}
	if len(again) > 0 {
		return w.update(ctx, again)
	}
	return nil
}

// question is one entry of inputRequests.
type question struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`

	key string
}

// ordered returns the remaining questions in the order of the task's inputRequests.
func ordered(inputs []byte, left map[string]question) []question {
	sorted := make([]question, 0, len(left))
	for key := range jsonscan.Members(inputs) {
		if q, ok := left[key]; ok {
			q.key = key
			sorted = append(sorted, q)
		}
	}
	return sorted
}

// ask sends questions to the caller, all at once, and passes on the answers together.
// The first error fails the Await: a task has no way to receive an error for a
// question.
func (w *wait) ask(ctx context.Context, questions []question) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		all sync.WaitGroup
		mu  sync.Mutex
	)
	a := answers{values: make(map[string]jsontext.Value, len(questions))}
	note := func(key string, value jsontext.Value, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			a.values[key] = value
		case a.err == nil:
			a.err = err
			cancel() // the other answers are no longer needed
		}
	}
	for _, q := range questions {
		wait, err := w.start(asking, q)
		if err != nil {
			note(q.key, nil, err)
			break
		}
		// Ends with the answer or with ctx; waited for below.
		all.Go(func() {
			value, err := wait()
			note(q.key, value, err)
		})
	}
	all.Wait()
	select {
	case w.ready <- a:
	case <-ctx.Done():
	}
}

// start sends one question and returns a function that waits for the answer.
func (w *wait) start(ctx context.Context, q question) (func() (jsontext.Value, error), error) {
	req, err := mcp.NewRequest(q.Method, q.Params)
	if err != nil {
		return nil, err
	}
	wait, err := w.caller.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return func() (jsontext.Value, error) {
		res, err := wait()
		if err != nil {
			return nil, err
		}
		return jsontext.Value(res.Bytes()), nil
	}, nil
}

// update sends answers to the server. A gateway error does not fail the Await: answers
// that are still asked for are sent again.
func (w *wait) update(ctx context.Context, values map[string]jsontext.Value) error {
	for key, value := range values {
		w.sent[key] = sent{value, time.Now()}
	}
	raw, err := json.Marshal(values, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = w.serve(ctx, "tasks/update", raw)
	if err != nil && (ctx.Err() != nil || !isTransient(err)) {
		return err
	}
	return nil
}
