// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/confirm"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The answers of users that are asked about a call, for the record.
const (
	answerAccept      = "accept"
	answerDecline     = "decline"
	answerCancel      = "cancel"      // they have closed the question, or the answer has no known action
	answerTimeout     = "timeout"     // limits.inputWait
	answerUnavailable = "unavailable" // the client cannot ask, or has answered with an error
	answerNone        = "none"        // the call has ended before
)

// mayAskBefore reports whether the user may be asked before a request of the method: those of the
// others are made while a user types, or change nothing.
func mayAskBefore(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// isAfterAnswer reports whether a request is the rest of one that the user has agreed to.
func isAfterAnswer(req *mcp.Request) bool {
	return req.Resumed != nil && confirm.IsState(req.Resumed.State)
}

// forwardAnswered forwards a request once the user has agreed to it, if the policy asks. Policy and
// quotas have admitted it; a sign-in comes later, so that users sign in only for what they want.
func (g *Gateway) forwardAnswered(ctx context.Context, by servedBy, item admitted, field mcp.Field, req *mcp.Request, caller mcp.Caller) (servedBy, *mcp.Result, error) {
	isAgreed := false
	if isAfterAnswer(req) {
		state, ok := confirm.Open(req.Resumed.State)
		if !ok {
			return by, nil, errors.New("a state of the gateway cannot be read") // the edge has sealed it
		}
		isAgreed = item.asks && g.agreed.Take(&state, by.rule)
		var err error
		if req, err = withRest(req, &state); err != nil {
			return by, nil, err
		}
	}
	if item.asks {
		by.answer = answerAccept
		if !isAgreed {
			var why error
			by.answer, why = g.askUser(ctx, item.entry, req, caller)
			g.noteAnswer(ctx, req, item.entry, by.verdict)
			if by.answer != answerAccept {
				res, err := g.notConfirmed(ctx, req, &by.verdict, why)
				return by, res, err
			}
		}
	}
	var res *mcp.Result
	var err error
	by.backend, res, err = g.forward(ctx, item, field, req, caller)
	if item.asks && err == nil && res != nil && req.TakesInputRequired && res.Type() == mcp.ResultInputRequired {
		res, err = g.keepAnswer(res, by.rule, item.cfg.Limits.InputWait)
	}
	return by, res, err
}

// withRest returns a request as it would be without the question to the user.
func withRest(req *mcp.Request, state *confirm.State) (*mcp.Request, error) {
	own := *req
	if !state.OfServer {
		own.Resumed = &mcp.Resumed{State: state.Rest, Answers: req.Resumed.Answers, Rounds: req.Resumed.Rounds}
		return &own, nil
	}
	own.Resumed = nil
	var e mcp.Edit
	if len(state.Rest) > 0 {
		e.Set(mcp.FieldRequestState, state.Rest)
	}
	if answers := req.Resumed.Answers; len(answers) > 0 {
		out := []byte{'{'}
		for key, answer := range answers {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(jsonscan.AppendString(out, key), ':'), answer.Bytes()...)
		}
		e.Set(mcp.FieldInputResponses, append(out, '}'))
	}
	var err error
	own.Params, err = e.Apply(&req.Params)
	return &own, err
}

// keepAnswer returns a result that asks for more input, after which the call goes on without another
// question, within the time that a client has to answer; a negative wait is no limit.
func (g *Gateway) keepAnswer(res *mcp.Result, rule string, wait time.Duration) (*mcp.Result, error) {
	if wait < 0 {
		wait = math.MaxInt64
	}
	until := time.Now().Add(wait)
	if res.Resume != nil {
		own := *res
		own.Resume = g.agreed.Keep(rule, until, res.Resume, false)
		return &own, nil
	}
	var e mcp.Edit
	if !res.Has(mcp.FieldInputRequests) {
		e.Set(mcp.FieldInputRequests, []byte(`{}`))
	}
	if res.Has(mcp.FieldRequestState) {
		e.Delete(mcp.FieldRequestState)
	}
	obj, err := e.Apply(&res.Object)
	return &mcp.Result{Object: obj, Resume: g.agreed.Keep(rule, until, bytes.Clone(res.Raw(mcp.FieldRequestState)), true)}, err
}

// askUser asks the user about a request, and returns the answer. The error is the cause of a missing one.
func (g *Gateway) askUser(ctx context.Context, e *catalog.Entry, req *mcp.Request, caller mcp.Caller) (string, error) {
	about := confirm.Call{
		Method: req.Method, Name: e.Name, Backend: e.BackendName, Title: titleOf(e.JSON()), Arguments: req.Params.Raw(mcp.FieldArguments),
	}
	ask, err := about.Question(g.secrets.Load())
	if err != nil {
		return answerUnavailable, err
	}
	answer, err := mcp.Ask(ctx, caller, ask)
	if errors.Is(err, mcp.ErrRequestEnded) {
		// The context of a request is cancelled right after its questions have ended.
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	f, isFault := errors.AsType[*mcp.Fault](err)
	switch {
	case ctx.Err() != nil:
		return answerNone, context.Cause(ctx)
	case isFault && f.Code == mcp.CodeDeadline:
		return answerTimeout, err
	case err != nil || answer == nil:
		return answerUnavailable, err
	}
	switch action := question.Action(answer.Bytes()); action {
	case answerAccept, answerDecline:
		return action, nil
	default:
		return answerCancel, nil
	}
}

// titleOf returns the title of an item, or "".
func titleOf(item []byte) string {
	title := ""
	for member, value := range jsonscan.Members(item) {
		switch member {
		case "title":
			if text, ok := jsonscan.DecodeText(value); ok && text != "" {
				return text
			}
		case "annotations":
			for name, value := range jsonscan.Members(value) {
				if text, ok := jsonscan.DecodeText(value); name == "title" && ok {
					title = text
				}
			}
		}
	}
	return title
}

// noteAnswer counts and records the answer to a question.
func (g *Gateway) noteAnswer(ctx context.Context, req *mcp.Request, e *catalog.Entry, why verdict) {
	g.metrics.Decisions(why.rule, why.decision+"_"+why.answer).Inc()
	g.noteIdentityEvent(ctx, &identityEvent{
		kind: policyAsked, identity: viewerOf(req).currentIdentity(), session: sessionOf(req),
		detail: e.Kind.String() + " " + nameInRecord(e), verdict: why,
	})
}

// notConfirmed returns the answer of a request that the user has not agreed to.
func (g *Gateway) notConfirmed(ctx context.Context, req *mcp.Request, by *verdict, why error) (*mcp.Result, error) {
	var text string
	switch by.answer {
	case answerDecline:
		text = "the user has declined this"
	case answerCancel:
		text = "the user has closed the question about this without an answer"
	case answerTimeout:
		text = "the user has not answered the question about this in time"
	case answerNone:
		text = "this has ended before the user answered"
	default:
		text = "the user must be asked about this first, and this client cannot do that"
	}
	text = fmt.Sprintf("%s (rule %s of the policy)", text, by.rule)
	if by.answer != answerNone && req.Method == "tools/call" {
		return toolError(text + "; it was not sent to the server")
	}
	f := &mcp.Fault{Code: mcp.CodeInvalidParams, Outcome: mcp.NotDispatched, Reason: code.PolicyConfirm, Message: text, Cause: why}
	if ctx.Err() != nil {
		f.Code = mcp.CodeDeadline
	}
	return nil, f
}
