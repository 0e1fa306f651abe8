// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// inputRequest is one request in a result of type input_required.
type inputRequest struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

// rounds sends a request. It sends the request again with the input that the server
// requests in its results, unless the caller does that itself (2026-07-28,
// basic/patterns/mrtr).
func (p *Protocol) rounds(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	params, err := stripInput(req)
	if err != nil {
		return nil, err
	}
	original := caller
	var open *urlElicitations // made when the client is first asked
	for round := 0; ; round++ {
		res, err := p.wire.call(ctx, p, req, params, caller)
		if err != nil && round > 0 {
			res, err = p.resendRound(ctx, req, params, caller, err)
		}
		if err != nil {
			return nil, err
		}
		if err := checkType(req, res); err != nil {
			return nil, p.Malformed(err)
		}
		open.notifyComplete(ctx, res, original)
		switch {
		case res.Type() != mcp.ResultInputRequired || req.TakesInputRequired:
			return res, nil
		// Checked before the client is asked, because the input could not be used.
		case round >= p.MaxRounds:
			return nil, p.Fault(mcp.CodeLimit, mcp.Unknown, nil, "it asked for input more than %d times (limits.rounds)", p.MaxRounds)
		}
		if open == nil {
			open = new(urlElicitations)
		}
		if params, err = p.nextRound(ctx, &req.Params, res, open, original); err != nil {
			return nil, err
		}
		caller = &wholeResultCaller{Caller: original, CallerExtension: original.Extension()} // completed URL elicitations are reported before the result
	}
}

// checkType rejects a result of an unknown type: "A resultType of any value
// unrecognized by the client MUST be considered invalid" (2026-07-28, basic,
// "ResultType"). A client that does not check types would take it for complete. A
// client that declares extensions of its own must check the types itself.
func checkType(req *mcp.Request, res *mcp.Result) error {
	switch t := res.Type(); {
	case t == mcp.ResultComplete, t == mcp.ResultInputRequired, t == mcp.ResultTask:
		return nil
	case req.TakesInputRequired && req.Client != nil && task.DeclaredOthers(req.Client.Capabilities):
		return nil
	default:
		return call.UnknownType(res)
	}
}

// stripInput removes input and state from the parameters of a client that does not
// support them. For such a client the gateway sends them, so its own cannot be valid.
func stripInput(req *mcp.Request) (*mcp.Object, error) {
	given := req.Params.Has(mcp.FieldInputResponses) || req.Params.Has(mcp.FieldRequestState)
	if !given || req.TakesInputRequired || !call.CanAsk(req.Method) {
		return &req.Params, nil
	}
	var e mcp.Edit
	e.Delete(mcp.FieldInputResponses)
	e.Delete(mcp.FieldRequestState)
	params, err := e.Apply(&req.Params)
	return &params, err
}

// resendRound sends a later round again after err, if it was not sent or was refused
// unprocessed. Starting over would ask the client again and make the server repeat the
// work of the earlier rounds.
func (p *Protocol) resendRound(ctx context.Context, req *mcp.Request, params *mcp.Object, caller mcp.Caller, err error) (*mcp.Result, error) {
	later := *req
	later.Params = *params
	var res *mcp.Result
	for n := 1; err != nil && call.Classify(&later, err) == call.Resend && n <= call.MaxResend && p.AwaitRetry(ctx, n); n++ {
		res, err = p.wire.call(ctx, p, req, params, caller)
	}
	if err != nil {
		return nil, p.AfterStart(err)
	}
	return res, nil
}

// nextRound gathers the input that a result requests. It returns the parameters of the
// next attempt: the original ones, the input, and the server's state unmodified.
func (p *Protocol) nextRound(ctx context.Context, original *mcp.Object, res *mcp.Result, open *urlElicitations, caller mcp.Caller) (*mcp.Object, error) {
	var e mcp.Edit
	questions, state := res.Raw(mcp.FieldInputRequests), res.Raw(mcp.FieldRequestState)
	if questions == nil && state == nil {
		return nil, p.Malformed(errNoInput)
	}
	if questions != nil {
		answers, err := p.gather(ctx, questions, open, caller)
		if err != nil {
			return nil, err
		}
		e.Set(mcp.FieldInputResponses, answers)
	}
	// Only the state of this round: an older one would reset the server's progress.
	if state != nil {
		e.Set(mcp.FieldRequestState, state)
	} else {
		e.Delete(mcp.FieldRequestState)
	}
	params, err := e.Apply(original)
	return &params, err
}

// errNoInput rejects a result that requests nothing and carries no state. Resending the
// request would repeat for ever.
var errNoInput = mcp.Errorf(mcp.CodeInternalError, "input_required without inputRequests and requestState")

// gather sends all input requests to the caller at once and returns the responses by
// key. If one fails, gather fails.
func (p *Protocol) gather(ctx context.Context, raw []byte, open *urlElicitations, caller mcp.Caller) ([]byte, error) {
	var questions map[string]inputRequest
	if err := json.Unmarshal(raw, &questions); err != nil {
		return nil, p.Malformed(err)
	}
	// Each takes a goroutine and a prompt to a user. The limit is that of a legacy
	// session's requests.
	if len(questions) > call.MaxServerRequests {
		return nil, p.Fault(mcp.CodeLimit, mcp.Unknown, nil, "it sent %d input requests at once", len(questions))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		answers = make(map[string]jsontext.Value, len(questions))
	)
	// In the server's order, in which a user should see them.
	for key := range jsonscan.Members(raw) {
		wait, err := p.startQuestion(ctx, questions[key], open, caller)
		if err != nil {
			cancel(err)
			break // the rest is not needed any more
		}
		// Waited for below. Ends with the response or with ctx.
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
	// The first failure has cancelled the other requests, so its cause is the one to
	// report.
	if ctx.Err() != nil {
		return nil, p.inputError(ctx)
	}
	// In a fixed order, so that resending a round sends the same bytes.
	return json.Marshal(answers, json.Deterministic(true))
}

// inputError is the error of a request if its input could not be gathered.
func (p *Protocol) inputError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == ctx.Err() { //nolint:errorlint // identity: the context ended without a cause of ours
		return p.GivenUp(ctx, mcp.Unknown)
	}
	f, ok := cause.(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	if !ok || f.Outcome != "" {
		return cause
	}
	// The caller could not know that the request has had a round.
	late := *f
	late.Outcome = mcp.Unknown
	return &late
}

// startQuestion sends one input request and returns a function that waits for the
// response. It parses the request as strictly as any other, so that the same rules
// apply in both eras.
func (p *Protocol) startQuestion(ctx context.Context, q inputRequest, open *urlElicitations, caller mcp.Caller) (func() (jsontext.Value, error), error) {
	req, err := mcp.NewRequest(q.Method, q.Params)
	if err != nil {
		return nil, err
	}
	req, answered, err := open.withID(req)
	if err != nil {
		return nil, err
	}
	wait, err := p.StartSafely(ctx, caller, req)
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

// wholeResultCaller is a caller that receives results as a whole, because something
// must be sent before them.
type wholeResultCaller struct {
	mcp.Caller
	mcp.CallerExtension // of Caller
}

// Extension returns the caller itself, which changes Receive.
func (c *wholeResultCaller) Extension() mcp.CallerExtension { return c }

// Receive reports false.
func (c *wholeResultCaller) Receive(context.Context, mcp.StreamedResult) (taken bool, err error) {
	return false, nil
}
