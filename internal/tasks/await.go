// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// How often a task is looked at. What its server suggests counts between the two
// bounds: less is a load that nobody has asked for, and more is a result that waits
// for no reason.
const (
	defaultPoll = time.Second
	minPoll     = 50 * time.Millisecond
	maxPoll     = time.Minute
)

const (
	// maxMisses is how many looks in a row may fail of ours before the wait does.
	maxMisses = 3

	// maxInputs bounds what a task may ask for at once: each is a goroutine and a
	// transcript with a person.
	maxInputs = 16
)

// Interval is how long to wait before the next look at a task that suggests so
// much.
func Interval(suggested time.Duration) time.Duration {
	if suggested == 0 {
		return defaultPoll
	}
	return min(max(suggested, minPoll), maxPoll)
}

// Await looks at a task of h until it has ended, and returns what the request would
// have ended with that it stands for. What the task asks for is put to the caller
// and answered by tasks/update, each question once. The requests to h are made in
// the name of like, and nothing but like's sender is taken from it.
//
// A caller that is a [mcp.Pulser] is told of each look that found the task at work.
// Await returns when the context ends, with its error, and leaves the task as it
// is. An error that leaves the task at work wraps a [LeftError].
func Await(ctx context.Context, h mcp.Handler, like *mcp.Request, id string, caller mcp.Caller) (*mcp.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &wait{handler: h, like: like, id: id, caller: caller, asked: make(map[string]bool), sent: make(map[string]sent), ready: make(chan answers)}
	defer w.asking.Wait()
	defer cancel()
	res, err := w.run(ctx)
	if err != nil && !w.ended {
		return nil, &LeftError{Err: err}
	}
	return res, err
}

// LeftError is the error of an Await that gave up before the task had ended.
type LeftError struct{ Err error }

// Error returns the text of the error.
func (e *LeftError) Error() string { return e.Err.Error() }

// Unwrap returns why it gave up.
func (e *LeftError) Unwrap() error { return e.Err }

// wait is one Await.
type wait struct {
	handler mcp.Handler
	like    *mcp.Request
	id      string
	caller  mcp.Caller

	asked  map[string]bool // keys that were put to the caller
	sent   map[string]sent // what was answered, by key
	ready  chan answers
	asking sync.WaitGroup
	misses int
	ended  bool // the task
}

// answers are what the caller has said to the questions of one look.
type answers struct {
	values map[string]jsontext.Value
	err    error
}

// sent is an answer and when the server was told last.
type sent struct {
	value jsontext.Value
	at    time.Time
}

func (w *wait) run(ctx context.Context) (*mcp.Result, error) {
	for {
		t, err := w.look(ctx)
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
			if err := w.tend(ctx, &t); err != nil {
				return nil, err
			}
		default:
		}
		if err := w.pause(ctx, Interval(t.Poll)); err != nil {
			return nil, err
		}
	}
}

// look asks for the state of the task. That one look fails for a reason which may
// pass says nothing of the task.
func (w *wait) look(ctx context.Context) (Task, error) {
	for {
		res, err := w.serve(ctx, "tasks/get", nil)
		if err == nil {
			w.misses = 0
			mcp.Pulse(w.caller)
			return Read(res.Bytes())
		}
		if w.misses++; ctx.Err() != nil || !mayPass(err) || w.misses >= maxMisses {
			return Task{}, err
		}
		if err := w.pause(ctx, defaultPoll); err != nil {
			return Task{}, err
		}
	}
}

// mayPass reports whether an error is ours, about the way to the server, and not
// what the server says of the task.
func mayPass(err error) bool {
	_, ok := errors.AsType[*mcp.Fault](err)
	return ok
}

// serve sends one request about the task.
func (w *wait) serve(ctx context.Context, method string, inputs []byte) (*mcp.Result, error) {
	params := members{{"taskId", mcp.AppendString(nil, w.id)}}
	if inputs != nil {
		params = params.with("inputResponses", inputs)
	}
	req, err := mcp.NewRequest(method, params.bytes())
	if err != nil {
		return nil, err
	}
	req.Client, req.Principal, req.Scope, req.LogLevel = w.like.Client, w.like.Principal, w.like.Scope, w.like.LogLevel
	res, err := w.handler.Serve(ctx, req, w.caller)
	if err == nil && res == nil {
		return nil, mcp.Errorf(mcp.CodeInternalError, "%s was answered with nothing", method)
	}
	return res, err
}

// pause lets time pass until the next look. Answers that come meanwhile go out at
// once, and are followed by a look.
func (w *wait) pause(ctx context.Context, d time.Duration) error {
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
		return w.update(ctx, a.values)
	}
}

// tend puts what is asked for the first time to the caller, and says again what was
// answered and is still asked for: the answer may have been lost, and a server
// ignores one that it has (tasks, "Task Update Requests").
func (w *wait) tend(ctx context.Context, t *Task) error {
	var questions map[string]question
	if err := json.Unmarshal(t.Inputs, &questions); err != nil {
		return mcp.Errorf(mcp.CodeInternalError, "the task asks for input in a way that cannot be read")
	}
	if len(questions) > maxInputs {
		return mcp.Errorf(mcp.CodeInternalError, "the task asks %d questions at once", len(questions))
	}
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
	if len(questions) > 0 {
		// Ends with the answers or with ctx; Await waits for it.
		w.asking.Go(func() { w.ask(ctx, inOrder(t.Inputs, questions)) })
	}
	if len(again) > 0 {
		return w.update(ctx, again)
	}
	return nil
}

// question is one of the inputRequests.
type question struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`

	key string
}

// inOrder returns the questions that are left of those that a task asks, as it asks
// them.
func inOrder(inputs []byte, left map[string]question) []question {
	sorted := make([]question, 0, len(left))
	for key := range mcp.Members(inputs) {
		if q, ok := left[key]; ok {
			q.key = key
			sorted = append(sorted, q)
		}
	}
	return sorted
}

// ask puts questions to the caller, all at once, and hands over the answers
// together. The first that fails is the wait's failure: there is no way to say no to
// a task but the answers that a question has for that.
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
			cancel() // the other questions are of no use any more
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

// start puts one question, and returns what waits for the answer.
func (w *wait) start(ctx context.Context, q question) (func() (jsontext.Value, error), error) {
	req, err := mcp.NewRequest(q.Method, q.Params)
	if err != nil {
		return nil, err
	}
	wait, err := mcp.Start(ctx, w.caller, req)
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

// update answers questions. That it fails on the way is no failure of the wait: what
// is still asked for is said again.
func (w *wait) update(ctx context.Context, values map[string]jsontext.Value) error {
	for key, value := range values {
		w.sent[key] = sent{value, time.Now()}
	}
	raw, err := json.Marshal(values, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = w.serve(ctx, "tasks/update", raw)
	if err != nil && (ctx.Err() != nil || !mayPass(err)) {
		return err
	}
	return nil
}
