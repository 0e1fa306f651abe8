// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// serveCall shows a call in the transcript and executes the transcript's lines for it,
// until one ends the call.
func (b *backend) serveCall(ctx context.Context, life *instance, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	p, again := b.admit(req)
	if again {
		b.showAnswers(life, p, req)
	} else {
		b.show(life, p.label, describeCall(req)+b.canDo(req))
	}
	for {
		select {
		case next := <-p.steps:
			res, err := next(ctx, p, req, caller)
			if res != nil || err != nil {
				return res, err
			}
		case <-ctx.Done():
			b.show(life, p.label, "cancelled")
			return nil, ctx.Err()
		}
	}
}

// canDo returns the capabilities of the client in a request, if the transcript shows
// them.
func (b *backend) canDo(req *mcp.Request) string {
	if !b.isShown("capabilities") {
		return ""
	}
	return " can " + compact(req.Client.Capabilities)
}

// admit numbers a new call. A retry that carries the state of an earlier call is that
// call (2026-07-28, basic/patterns/mrtr).
func (b *backend) admit(req *mcp.Request) (p *scriptedCall, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state, ok := req.Params.Text(mcp.FieldRequestState); ok {
		if p, ok := b.calls[strings.TrimPrefix(state, "state of ")]; ok {
			return p, true
		}
	}
	b.lastCall++
	p = &scriptedCall{label: strconv.Itoa(b.lastCall), steps: make(chan step, 16)}
	b.calls[p.label] = p
	return p, false
}

// describeCall returns the content of a request, without what era and transport add to
// it.
func describeCall(req *mcp.Request) string {
	text := strings.TrimSpace(req.Method + " " + paramsOf(req))
	if req.Params.Has(mcp.MetaProgressToken) {
		text += " progress"
	}
	for _, name := range slices.Sorted(maps.Keys(req.ParamHeaders)) {
		text += fmt.Sprintf(" %s=%q", name, req.ParamHeaders[name])
	}
	return text
}

func paramsOf(req *mcp.Request) string {
	params, err := parseObject(req.Params.Bytes())
	if err != nil || len(params) == 0 {
		return ""
	}
	params = params.withoutMeta("io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo",
		"io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/logLevel", "progressToken")
	if req.Method == "tools/call" {
		params = params.without("task") // how one era requests it
	}
	if len(params) == 0 {
		return ""
	}
	return params.String()
}

func (b *backend) showAnswers(life *instance, p *scriptedCall, req *mcp.Request) {
	answers, err := parseObject(req.Params.Raw(mcp.FieldInputResponses))
	if err != nil {
		b.show(life, p.label, "retry without answers")
		return
	}
	for _, a := range answers {
		b.show(life, p.label, "answer "+compact(a.value))
	}
}

// step passes a line to the call that it names.
func (b *backend) step(label string, args []string) bool {
	b.mu.Lock()
	p := b.calls[label]
	b.mu.Unlock()
	if p == nil || len(args) < 2 {
		return false
	}
	s, ok := b.parseStep(args[0], args[1:])
	if ok {
		p.steps <- s // has room for more than a transcript sends without waiting
	}
	return ok
}

func (b *backend) parseStep(verb string, args []string) (step, bool) {
	switch {
	case verb == "task" && len(args) == 2: // backend a> 1 task t1 {"ttlMs":60000}; it becomes a task, if its client accepts one
		return b.stepTask(args[0], args[1]), true
	case verb == "result": // backend a> 1 result {"content":[]}
		return func(context.Context, *scriptedCall, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			return mcp.NewResult([]byte(args[0]))
		}, true
	case verb == "error" && len(args) >= 2: // backend a> 1 error -32602 "no such city" {"city":"X"}
		return stepError(args)
	case verb == "ask" && len(args) == 2: // backend a> 1 ask elicitation/create {"message":"?"}
		return b.stepAsk(args[0], args[1]), true
	case verb == "asks": // backend a> 1 asks [{"method":"roots/list","params":{}},{"method":"elicitation/create","params":{"message":"?"}}]
		return b.stepAsks(args[0])
	case verb == "poll" && len(args) == 1: // backend a> 1 poll 2s; the connection of the call ends for so long
		return b.stepPoll(args[0])
	case strings.HasPrefix(verb, "notifications/"): // backend a> 1 notifications/progress {"progress":1}
		return stepNotify(verb, args[0]), true
	default:
		return nil, false
	}
}

func stepError(args []string) (step, bool) {
	code, err := strconv.ParseInt(args[0], 10, 64)
	e := &mcp.Error{Code: code}
	if err != nil || json.Unmarshal([]byte(args[1]), &e.Message) != nil {
		return nil, false
	}
	if len(args) > 2 {
		e.Data = json.RawMessage(args[2])
	}
	return func(context.Context, *scriptedCall, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return nil, e }, true
}

// stepPoll ends the connection of the call. The client reconnects.
func (b *backend) stepPoll(text string) (step, bool) {
	retry, err := time.ParseDuration(text)
	return func(_ context.Context, p *scriptedCall, _ *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if !caller.Extension().Poll(retry) {
			b.show(b.life(), p.label, "poll refused")
		}
		return nil, nil //nolint:nilnil // the call continues
	}, err == nil
}

// stepNotify sends a notification that belongs to the call. Progress has the call's
// token, or one of its own if the call has none.
func stepNotify(method, params string) step {
	return func(ctx context.Context, _ *scriptedCall, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if method == "notifications/progress" {
			token := string(req.Params.Raw(mcp.MetaProgressToken))
			if token == "" {
				token = `"unasked"`
			}
			params = `{"progressToken":` + token + "," + strings.TrimPrefix(params, "{")
		}
		n, err := mcp.NewNotification(method, []byte(params))
		if err != nil {
			return nil, err
		}
		return nil, ignoreEnd(caller.Notify(ctx, n))
	}
}

func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil // the loop detects it
	}
	return err
}

// stepAsk sends a request to the client: by a result if the client retries by itself,
// and by a request of the server otherwise.
func (b *backend) stepAsk(method, params string) step {
	ask, err := mcp.NewRequest(method, []byte(params))
	return b.put([]*mcp.Request{ask}, err)
}

// stepAsks sends several requests to the client at once.
func (b *backend) stepAsks(list string) (step, bool) {
	var questions []struct {
		Method string
		Params json.RawMessage
	}
	if json.Unmarshal([]byte(list), &questions) != nil {
		return nil, false
	}
	asks := make([]*mcp.Request, len(questions))
	for i, q := range questions {
		var err error
		if asks[i], err = mcp.NewRequest(q.Method, q.Params); err != nil {
			return nil, false
		}
	}
	return b.put(asks, nil), true
}

// put returns the step that sends the requests, and continues after all are answered.
func (b *backend) put(asks []*mcp.Request, err error) step {
	return func(ctx context.Context, p *scriptedCall, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if err != nil || req.TakesInputRequired {
			return inputRequired(p, asks), err
		}
		answers := make([]string, len(asks))
		var wg sync.WaitGroup
		for i, ask := range asks {
			wg.Go(func() { // ends with the answer, or with the call
				res, err := mcp.Ask(ctx, caller, ask)
				if ctx.Err() == nil && !errors.Is(err, mcp.ErrRequestEnded) {
					answers[i] = describeAnswer(res, err)
				}
			})
			b.w.advance("1ms") // the next one is sent after it, on every wire
		}
		wg.Wait()
		for _, answer := range answers {
			if answer != "" {
				b.show(b.life(), p.label, answer)
			}
		}
		return nil, nil //nolint:nilnil // the call continues, or its loop detects the end
	}
}

// askUnrelated sends a client a request that belongs to none of its calls, and does not
// wait for the response.
func (b *backend) askUnrelated(method, params string) bool {
	req, err := mcp.NewRequest(method, []byte(params))
	b.mu.Lock()
	scope := b.lastScope
	b.mu.Unlock()
	if err != nil || scope == nil || scope.Unrelated() == nil {
		return false
	}
	life := b.life()
	go func() { // ends with the answer, or with the session of the client
		res, err := mcp.Ask(b.w.t.Context(), scope.Unrelated(), req)
		b.show(life, "", describeAnswer(res, err))
	}()
	return true
}

// inputRequired returns the result by which a modern backend sends requests.
func inputRequired(p *scriptedCall, asks []*mcp.Request) *mcp.Result {
	var questions object
	for i, ask := range asks {
		questions = questions.with(fmt.Sprintf("q%d", i), fmt.Sprintf(`{"method":%q,"params":%s}`, ask.Method, ask.Params.Bytes()))
	}
	res, err := mcp.NewResult(fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":%s,"requestState":"state of %s"}`, questions.String(), p.label))
	if err != nil {
		return nil // the requests have been parsed
	}
	return res
}

// describeAnswer describes the response to a request of the backend.
func describeAnswer(res *mcp.Result, err error) string {
	if err == nil {
		return "answer " + compact(res.Bytes())
	}
	e := mcp.ToWire(err)
	return describeError(e.Code, string(quoted(e.Message)), e.Data)
}

// describeError formats an error as a line shows it. The message is JSON.
func describeError(code int64, message string, data []byte) string {
	text := fmt.Sprintf("error %d %s", code, message)
	if len(data) > 0 {
		text += " " + compact(data)
	}
	return text
}

func (b *backend) life() *instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}
