// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// inputRequest is one question in a result of type input_required.
type inputRequest struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

// rounds sends a request, and sends it again with what the server asked for in
// its results, unless the caller does that by itself
// (2026-07-28, basic/patterns/mrtr).
func (p *modern) rounds(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	params, err := stripInput(req)
	if err != nil {
		return nil, err
	}
	var open *urlElicitations // made for those who are asked something
	for round := 0; ; round++ {
		res, err := p.round(ctx, req, params, caller, round)
		if err != nil {
			return nil, err
		}
		if err := checkType(req, res); err != nil {
			return nil, p.malformed(err)
		}
		open.notifyComplete(ctx, res, caller)
		switch {
		case res.Type() != mcp.ResultInputRequired || req.TakesInputRequired:
			return res, nil
		// Before the client is asked: nobody is to answer for nothing.
		case round >= p.MaxRounds:
			return nil, p.fault(mcp.CodeLimit, mcp.Unknown, nil, "it asked for input more than %d times (limits.rounds)", p.MaxRounds)
		}
		if open == nil {
			open = new(urlElicitations)
		}
		if params, err = p.nextRound(ctx, &req.Params, res, open, caller); err != nil {
			return nil, err
		}
	}
}

// checkType refuses a result of a type that nobody has agreed on: "A resultType of
// any value unrecognized by the client MUST be considered invalid" (2026-07-28,
// basic, "ResultType"). Passed on, it would be taken for complete where types are not
// known. What a client's own extensions may answer with is for that client to know.
func checkType(req *mcp.Request, res *mcp.Result) error {
	switch t := res.Type(); {
	case t == mcp.ResultComplete, t == mcp.ResultInputRequired, t == mcp.ResultTask:
		return nil
	case req.TakesInputRequired && req.Client != nil && taskform.DeclaredOthers(req.Client.Capabilities):
		return nil
	default:
		return errUnknownType(res)
	}
}

// errUnagreed is the error of a result of a type that was not agreed on. Of the legacy
// era there is none: a server that names one there would be believed by a modern client,
// and by nobody else.
func errUnknownType(res *mcp.Result) error {
	return mcp.Errorf(mcp.CodeInternalError, "its result is of the unknown type %q", res.Type())
}

// withoutInput is a request as a server of the legacy era gets it, which asks while
// it serves a request and gives no states. One that brings a state is refused: it
// is meant for another server, or for a call that is over, and the server would only
// do again what it has done. Input without a state answers nothing that was asked
// here, and is left out, so that the server asks for what it needs: "If additional,
// unexpected parameters are provided in the InputResponses object, the server SHOULD
// ignore any information it does not recognize or need" (2026-07-28,
// basic/patterns/mrtr, "Error Handling").
func withoutInput(req *mcp.Request) (*mcp.Request, error) {
	switch {
	case !req.TakesInputRequired || !canAsk(req.Method):
		return req, nil
	case req.Params.Has(mcp.FieldRequestState):
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "requestState is unknown, used or expired, or it belongs to another request")
	case !req.Params.Has(mcp.FieldInputResponses):
		return req, nil
	}
	var e mcp.Edit
	e.Delete(mcp.FieldInputResponses)
	params, err := e.Apply(&req.Params)
	if err != nil {
		return nil, err
	}
	first := *req
	first.Params = params
	return &first, nil
}

// canAsk lists the requests during which a modern client can be asked (2026-07-28,
// basic/patterns/mrtr, "Supported Requests").
func canAsk(method string) bool {
	return method == methodToolsCall || method == "prompts/get" || method == "resources/read"
}

// ownInput returns the parameters without input and state where their sender knows
// neither: it is we who give them then, and nobody else can have been given any.
func stripInput(req *mcp.Request) (*mcp.Object, error) {
	given := req.Params.Has(mcp.FieldInputResponses) || req.Params.Has(mcp.FieldRequestState)
	if !given || req.TakesInputRequired || !canAsk(req.Method) {
		return &req.Params, nil
	}
	var e mcp.Edit
	e.Delete(mcp.FieldInputResponses)
	e.Delete(mcp.FieldRequestState)
	return applied(&e, &req.Params)
}

// applied returns the changed object.
func applied(e *mcp.Edit, o *mcp.Object) (*mcp.Object, error) {
	changed, err := e.Apply(o)
	if err != nil {
		return nil, err
	}
	return &changed, nil
}

// round sends a request once. A later round that never left, or that the server
// refused to look at, is sent again here: to begin anew would be to ask the
// client everything anew, and to have the server do twice what it did before it
// asked.
func (p *modern) round(ctx context.Context, req *mcp.Request, params *mcp.Object, caller mcp.Caller, round int) (*mcp.Result, error) {
	if round > 0 {
		caller = wholeResultCaller{caller} // visits that have led to something are told of before the result
	}
	res, err := p.call(ctx, req, params, caller)
	if err == nil || round == 0 {
		return res, err
	}
	later := *req
	later.Params = *params
	for n := 1; err != nil && classify(&later, err) == resend && n <= maxResend && p.awaitRetry(ctx, n); n++ {
		res, err = p.call(ctx, req, params, caller)
	}
	if err != nil {
		return nil, p.afterFirstRound(err)
	}
	return res, nil
}

// afterFirstRound is the error of a request that failed after its first round: the server
// has worked on it, so that it may not be begun again, whatever became of the
// last round.
func (p *modern) afterFirstRound(err error) error {
	err = unwrap(err)
	if e, ok := err.(*mcp.Error); ok && isNotDispatched(e) { //nolint:errorlint // only the server's own word
		return p.lost(errors.Join(errNoRetry, e), "it did not take the input that it had asked for")
	}
	f, ok := err.(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	if !ok {
		return err
	}
	late := *f
	late.Outcome, late.Cause = mcp.Unknown, errors.Join(errNoRetry, f.Cause)
	if late.Code == mcp.CodeBackendUnavailable {
		late.Code = mcp.CodeBackendFailed
	}
	return &late
}

// saysNotDispatched reports whether a server that is a gateway itself says that it
// has not sent on what we sent. Of a later round that is true, and of the request it
// is not.
func isNotDispatched(e *mcp.Error) bool {
	var data struct {
		Outcome mcp.Outcome `json:"outcome"`
	}
	return len(e.Data) > 0 && json.Unmarshal(e.Data, &data) == nil && data.Outcome == mcp.NotDispatched
}

// nextRound gathers the input that a result asks for and returns the parameters
// of the next attempt: the original ones, the answers, and the server's state as
// it came.
func (p *modern) nextRound(ctx context.Context, original *mcp.Object, res *mcp.Result, open *urlElicitations, caller mcp.Caller) (*mcp.Object, error) {
	var e mcp.Edit
	questions, state := res.Raw(mcp.FieldInputRequests), res.Raw(mcp.FieldRequestState)
	if questions == nil && state == nil {
		return nil, p.malformed(errNoInput)
	}
	if questions != nil {
		answers, err := p.gather(ctx, questions, open, caller)
		if err != nil {
			return nil, err
		}
		e.Set(mcp.FieldInputResponses, answers)
	}
	// Only what this round was given: a state of an earlier one would tell the server
	// that we are where we were.
	if state != nil {
		e.Set(mcp.FieldRequestState, state)
	} else {
		e.Delete(mcp.FieldRequestState)
	}
	return applied(&e, original)
}

// errNoInput: such a result asks for nothing and remembers nothing, so that to send
// the request again would be to send it for ever.
var errNoInput = mcp.Errorf(mcp.CodeInternalError, "input_required without inputRequests and requestState")

// gather asks the caller all the questions at once and returns the answers under
// the questions' keys. One that fails fails the request.
func (p *modern) gather(ctx context.Context, raw []byte, open *urlElicitations, caller mcp.Caller) ([]byte, error) {
	var questions map[string]inputRequest
	if err := json.Unmarshal(raw, &questions); err != nil {
		return nil, p.malformed(err)
	}
	// Each is a goroutine and a transcript with a person: the bound is that of a legacy
	// session's asks, so that an era gives no server more of either.
	if len(questions) > maxAsks {
		return nil, p.fault(mcp.CodeLimit, mcp.Unknown, nil, "it asked %d questions at once", len(questions))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		answers = make(map[string]jsontext.Value, len(questions))
	)
	// In the order in which they stand: it is the one that a person is to read them in.
	for key := range mcp.Members(raw) {
		wait, err := p.startQuestion(ctx, questions[key], open, caller)
		if err != nil {
			cancel(err)
			break // nobody is to read what is of no use any more
		}
		// Waited for below; ends with the answer or with ctx.
		wg.Go(func() {
			answer, err := wait()
			if err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[key] = answer
		})
	}
	wg.Wait()
	// The first failure has ended the other questions, so that its cause is the one to
	// tell; theirs are only that they were ended.
	if ctx.Err() != nil {
		return nil, p.inputError(ctx)
	}
	// In one order, so that the same answers are the same bytes when a round is sent
	// again.
	return json.Marshal(answers, json.Deterministic(true))
}

// unanswered is the error of a request whose questions found no answer.
func (p *modern) inputError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // identity: the context ended without a cause of ours
		return p.givenUp(ctx, mcp.Unknown)
	}
	f, ok := cause.(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	if !ok || f.Outcome != "" {
		return cause
	}
	// Who could not be asked knows nothing of the request, which has had a round.
	late := *f
	late.Outcome = mcp.Unknown
	return &late
}

// startOne puts one question, and returns what waits for the answer. It parses what
// the server has written for the client as strictly as any other request: what
// reaches a client has passed the same rules in both eras.
func (p *modern) startQuestion(ctx context.Context, q inputRequest, open *urlElicitations, caller mcp.Caller) (func() (jsontext.Value, error), error) {
	req, err := mcp.NewRequest(q.Method, q.Params)
	if err != nil {
		return nil, err
	}
	req, answered, err := open.withID(req)
	if err != nil {
		return nil, err
	}
	wait, err := p.startSafely(ctx, caller, req)
	if err != nil {
		return nil, err
	}
	return func() (jsontext.Value, error) {
		res, err := wait()
		switch {
		case err != nil:
			return nil, err
		case res == nil:
			return nil, mcp.Errorf(mcp.CodeInternalError, "no answer")
		}
		answered(res)
		return res.Bytes(), nil
	}, nil
}
