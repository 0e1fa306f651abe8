// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A modern client cannot be sent a request. It is asked with a result of type
// input_required, and sends the answers in a retry, which is a request of its own
// (2026-07-28, basic/patterns/mrtr). So a request during which a client may be asked is
// served in several exchanges, one for each attempt of the client, and is parked between
// them.
type (
	attempt        = requestCaller
	parkedRequests = session.ParkedRequests[inflightRequest, attempt]
	parkedRequest  = session.ParkedRequest[inflightRequest, attempt]
)

// askWindow is how long a question waits for others, so that questions which a Handler
// asks together are sent together: each round costs a request, and an interaction with a
// person. It is longer than the gaps between messages that a backend writes together, and
// too short to be noticed.
const askWindow = 10 * time.Millisecond

// mayAsk lists the requests during which a client can be asked (2026-07-28,
// basic/patterns/mrtr, "Supported Requests").
func mayAsk(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read":
		return true
	default:
		return false
	}
}

// mrtrCaller is the Caller of a request that can be parked.
type mrtrCaller struct {
	mcp.NoExtension

	server  *Server
	request *inflightRequest
}

// Notify sends a notification of the request in its current exchange. While the request
// is parked, notifications are dropped and counted.
func (c *mrtrCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	if n.Method == elicitationComplete {
		// The client retries by itself (2026-07-28, changelog, 11).
		return c.drop()
	}
	for {
		at, err := c.request.parked.Exchange()
		if err != nil {
			return err
		}
		if at == nil {
			return c.drop()
		}
		err = at.Notify(ctx, c.withToken(n, at))
		if now, _ := c.request.parked.Exchange(); now == at || !errors.Is(err, mcp.ErrRequestEnded) {
			return err
		}
		// The exchange has ended in between and the request has not.
	}
}

func (c *mrtrCaller) drop() error {
	c.server.counts.Dropped.Add(1)
	return nil
}

// withToken returns a progress notification with the progress token of the current
// exchange: each retry is a request of its own, with its own token.
func (c *mrtrCaller) withToken(n *mcp.Notification, at *attempt) *mcp.Notification {
	token := c.request.req.Params.Raw(mcp.MetaProgressToken)
	named := n.Params.Raw(mcp.FieldProgressToken)
	if n.Method != "notifications/progress" || at.req == c.request.req || !bytes.Equal(named, token) {
		return n
	}
	var e mcp.Edit
	if at.token == nil {
		e.Delete(mcp.FieldProgressToken) // the retry wants no progress: without a token it is dropped
	} else {
		e.Set(mcp.FieldProgressToken, at.token)
	}
	params, err := e.Apply(&n.Params)
	if err != nil {
		return n // a token that was received is JSON
	}
	return &mcp.Notification{Method: n.Method, Params: params}
}

// Extension returns the Caller itself, which can receive.
func (c *mrtrCaller) Extension() mcp.CallerExtension { return c }

// Start sends a question. Questions are sent in the order of the calls. The answer fails
// when it is known that the client will not retry.
func (c *mrtrCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	ir := c.request
	if err := checkDeclared(ir.parked.LastExchange().req.Client, req); err != nil {
		return nil, err
	}
	q, err := ir.parked.Ask(req.Method, modernAsk(req))
	if err != nil {
		return nil, c.server.parkFault(err)
	}
	c.server.parkSoon(ir)
	return func() (*mcp.Result, error) { return c.awaitAnswer(ctx, q) }, nil
}

func (c *mrtrCaller) awaitAnswer(ctx context.Context, q *session.Question) (*mcp.Result, error) {
	s, ir := c.server, c.request
	select {
	case <-q.Done():
		end := q.Answer()
		if errors.Is(end.Err, session.ErrFull) {
			s.observe(ctx, Event{Kind: Limited, Principal: ir.req.Principal, Detail: "limits.parked"})
		}
		return end.Result, s.parkFault(end.Err)
	case <-ctx.Done():
		ir.parked.Withdraw(q, context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

// parkSoon schedules park, to give other questions the time to join. The timer is stopped
// when the Handler has returned.
func (s *Server) parkSoon(ir *inflightRequest) { ir.askTimer.after(askWindow, func() { s.park(ir) }) }

// park ends the current exchange with the questions of the request, and parks it.
func (s *Server) park(ir *inflightRequest) {
	id := rand.Text()
	round, ok := ir.parked.Park(id, s.parkedOwner(ir.req, ir.connID), time.Now())
	if !ok {
		return
	}
	s.parkedTimer.after(time.Until(round.Next), s.expireParked)
	left := round.Left
	s.releaseQuota(ir) // before the client can know that the exchange has ended
	state := s.sealState(stateParked, ir.req, round.Until, []byte(id))
	if !left.x.Finish(modernEncoder{}.result(nil, left.x.ID(), ir.req, inputRequiredResult(round.Questions, state))) {
		s.cancelIfParked(ir, left.x) // it was cancelled, and no retry will follow
	}
	// After it was parked: EndProfile finds the request, or this does.
	if !s.hasProfile(ir.req.Profile) {
		s.cancelParkedOf(ir.req.Profile, errNoProfile)
	}
	left.progressTimer.stop()
}

// cancelIfParked cancels a request that is parked since the given exchange, because the
// end of that exchange did not reach the client.
func (s *Server) cancelIfParked(ir *inflightRequest, left *session.Exchange) {
	if at := ir.parked.LastExchange(); at.x == left && ir.parked.DropIfParked(at) {
		s.cancelParked([]*parkedRequest{ir.parked}, errDisconnected)
	}
}

// cancelParked cancels parked requests that no retry will follow. Their contexts end
// before their questions fail, so that the Handlers do not take the failure for an
// answer.
func (s *Server) cancelParked(parked []*parkedRequest, why error) {
	for _, p := range parked {
		p.Value().stop(why)
		p.Fail(why)
		p.Value().memory.reservation.Release() // of an answer that was kept
	}
}

// errUnanswered is the cause with which the context of a parked request ends.
var errUnanswered = errors.New("the client did not retry with the input that it was asked for")

// expireParked ends the parked requests of clients that did not retry in time.
func (s *Server) expireParked() {
	due, next := s.parked.Expire(time.Now())
	s.cancelParked(due, errUnanswered)
	if !next.IsZero() {
		s.parkedTimer.after(time.Until(next), s.expireParked)
	}
}

// parkFault is askFault for the errors of parking.
func (s *Server) parkFault(err error) error {
	l := &s.cfg.Limits
	switch {
	case errors.Is(err, session.ErrFull):
		return &mcp.Fault{Code: mcp.CodeLimit, Message: fmt.Sprintf("too many requests wait for input (limits.parked: %d)", l.Parked), Cause: err}
	case errors.Is(err, session.ErrRounds):
		return &mcp.Fault{Code: mcp.CodeLimit, Message: fmt.Sprintf("the client has been asked for input %d times (limits.rounds)", l.Rounds), Cause: err}
	case errors.Is(err, session.ErrClosed):
		return &mcp.Fault{Code: mcp.CodeShuttingDown, Message: "the gateway is shutting down, and the client could not retry", Cause: err}
	case errors.Is(err, errUnanswered):
		return &mcp.Fault{Code: mcp.CodeDeadline, Message: fmt.Sprintf("the client did not retry within %v (limits.inputWait)", l.InputWait), Cause: err}
	default:
		return askFault(err)
	}
}

// elicitationComplete exists in 2025-11-25 only.
const elicitationComplete = "notifications/elicitation/complete"

// modernAsk returns the parameters of a question for a modern client, without the members
// of 2025-11-25: the id of a URL elicitation, which the requestState replaces, the
// progress token and the task parameter.
func modernAsk(req *mcp.Request) []byte {
	var e mcp.Edit
	for _, f := range []mcp.Field{mcp.MetaProgressToken, mcp.MetaRelatedTask, mcp.FieldTask} {
		if req.Params.Has(f) {
			e.Delete(f)
		}
	}
	params := e.AppendTo(nil, &req.Params)
	if req.Method == "elicitation/create" {
		params = withoutMember(params, "elicitationId")
	}
	return params
}

// inputRequiredResult returns the result that asks the client. All its parts are valid
// JSON.
func inputRequiredResult(questions []*session.Question, state string) *mcp.Result {
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, q := range questions {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonscan.AppendString(out, q.Key), `:{"method":`...)
		out = jsonscan.AppendString(out, q.Method)
		out = append(append(append(out, `,"params":`...), q.Params...), '}')
	}
	out = jsonscan.AppendString(append(out, `},"requestState":`...), state)
	res, err := mcp.NewResult(append(out, '}'))
	if err != nil {
		return &mcp.Result{} // the parts have been scanned
	}
	return res
}

// inputRequired handles an outcome that asks a modern client for input. That is a result
// of a modern backend, which is passed on with its state sealed or marked, or the error of
// a backend of 2025-11-25 that asks for URLs to be visited first. Other outcomes are
// returned unmodified.
func (s *Server) inputRequired(ir *inflightRequest, res *mcp.Result, err error) (*mcp.Result, error) {
	if wire, ok := err.(*mcp.Error); ok && wire.Code == mcp.CodeURLElicitationRequired { //nolint:errorlint // only an error that the backend itself returned
		if asked := s.urlElicitationResult(ir, wire); asked != nil {
			return asked, nil
		}
	}
	if err != nil || res == nil || res.Type() != mcp.ResultInputRequired {
		return res, err
	}
	if err := checkInputRequests(ir.req, res); err != nil {
		return nil, err
	}
	if res.Resume != nil {
		return s.withResume(ir, res)
	}
	return s.protectState(ir.req, res)
}

// withResume returns a result of the Handler itself with its state sealed, together with how often
// the client was asked.
func (s *Server) withResume(ir *inflightRequest, res *mcp.Result) (*mcp.Result, error) {
	rounds := 1
	if ir.req.Resumed != nil {
		rounds += ir.req.Resumed.Rounds
	}
	body := append(binary.AppendUvarint(nil, uint64(rounds)), res.Resume...)
	var e mcp.Edit
	e.SetText(mcp.FieldRequestState, s.sealState(stateResume, ir.req, time.Now().Add(stateTTL), body))
	return editResult(res, &e)
}

func editResult(res *mcp.Result, e *mcp.Edit) (*mcp.Result, error) {
	obj, err := e.Apply(&res.Object)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Object: obj}, nil
}

// resumedRequest returns the request of a client that was asked by withResume, in its original
// form and with its answers, those that are JSON objects.
func resumedRequest(req *mcp.Request, body []byte) (openedRequest, error) {
	rounds, width := binary.Uvarint(body)
	if width <= 0 {
		return openedRequest{}, session.ErrUnknown
	}
	given, err := inputResponses(&req.Params)
	if err != nil {
		return openedRequest{}, err
	}
	resumed := &mcp.Resumed{State: body[width:], Answers: make(map[string]*mcp.Result, len(given)), Rounds: int(rounds)}
	for key, raw := range given {
		if answer, err := mcp.NewResult(raw); err == nil {
			resumed.Answers[key] = answer
		}
	}
	opened, err := withoutInput(req)
	if err == nil {
		opened.req.Resumed = resumed
	}
	return opened, err
}

// inputRequest is one question in a result of type input_required.
type inputRequest struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

// checkInputRequests rejects a result that the client cannot handle or must not be sent
// (2026-07-28, basic/patterns/mrtr, "Server Requirements"): to the client, we are the
// sender.
func checkInputRequests(req *mcp.Request, res *mcp.Result) error {
	if !mayAsk(req.Method) {
		return malformedInput("the server asked for input, which is not allowed during " + req.Method)
	}
	raw := res.Raw(mcp.FieldInputRequests)
	if raw == nil {
		if !res.Has(mcp.FieldRequestState) {
			return malformedInput("the server asked for input without inputRequests or requestState")
		}
		return nil
	}
	var questions map[string]inputRequest
	if err := json.Unmarshal(raw, &questions); err != nil || questions == nil {
		return malformedInput("the server asked for input with invalid inputRequests")
	}
	for _, q := range questions {
		ask, err := mcp.NewRequest(q.Method, q.Params)
		if err != nil {
			return malformedInput("the server asked for input with invalid inputRequests")
		}
		if err := checkDeclared(req.Client, ask); err != nil {
			return err
		}
	}
	return nil
}

func malformedInput(text string) error {
	return &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Message: text}
}

// protectState returns the result with its state sealed or marked, as needed.
func (s *Server) protectState(req *mcp.Request, res *mcp.Result) (*mcp.Result, error) {
	raw := res.Raw(mcp.FieldRequestState)
	text, _ := res.Text(mcp.FieldRequestState)
	var e mcp.Edit
	switch {
	case raw == nil:
		return res, nil
	case s.sealsStates(req):
		e.SetText(mcp.FieldRequestState, s.sealState(stateSealed, req, time.Now().Add(stateTTL), raw))
	case stateKindOf(text) != "":
		e.Set(mcp.FieldRequestState, markState(raw))
	default:
		return res, nil
	}
	return editResult(res, &e)
}

// urlElicitationResult translates the error with which a backend of 2025-11-25 asks for
// URLs to be visited before a retry (client/elicitation, "URL Elicitation Required
// Error") into an input_required result for a modern client. It returns nil if the client
// did not declare the capability, or was asked too often. The request has not run, and
// its retry is a new one.
func (s *Server) urlElicitationResult(ir *inflightRequest, wire *mcp.Error) *mcp.Result {
	var data struct {
		Elicitations []jsontext.Value `json:"elicitations"`
	}
	if !mayAsk(ir.req.Method) || json.Unmarshal(wire.Data, &data) != nil || len(data.Elicitations) == 0 || ir.restarts >= s.cfg.Limits.Rounds {
		return nil
	}
	var questions []*session.Question
	for i, raw := range data.Elicitations {
		ask, err := mcp.NewRequest("elicitation/create", raw)
		if err != nil || checkDeclared(ir.req.Client, ask) != nil {
			return nil
		}
		if mode, _ := ask.Params.Text(mcp.FieldMode); mode != "url" {
			return nil
		}
		questions = append(questions, &session.Question{Key: session.QuestionKey(i + 1), Method: ask.Method, Params: modernAsk(ask)})
	}
	state := s.sealState(stateRestart, ir.req, time.Now().Add(s.cfg.Limits.InputWait), strconv.AppendInt(nil, int64(ir.restarts+1), 10))
	return inputRequiredResult(questions, state)
}

// restartRequest returns the request of a client that was asked to visit URLs, in its
// original form. It fails if the client reports that they were not visited.
func restartRequest(req *mcp.Request, count []byte) (openedRequest, error) {
	answers, err := inputResponses(&req.Params)
	if err != nil {
		return openedRequest{}, err
	}
	for _, raw := range answers {
		if action := question.Action(raw); action == "decline" || action == "cancel" {
			return openedRequest{}, mcp.Errorf(mcp.CodeInvalidParams, "a URL that the request requires was not visited: %s", action)
		}
	}
	r, err := withoutInput(req)
	r.restarts, _ = strconv.Atoi(string(count)) // written by urlElicitationResult
	return r, err
}

// inputResponses returns the answers in a request, by the keys of their questions.
func inputResponses(params *mcp.Object) (map[string]jsontext.Value, error) {
	raw := params.Raw(mcp.FieldInputResponses)
	if raw == nil {
		return nil, nil //nolint:nilnil // no answers are an empty map
	}
	var answers map[string]jsontext.Value
	if err := json.Unmarshal(raw, &answers); err != nil || answers == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.inputResponses must be an object")
	}
	return answers, nil
}

// readAnswers returns the answers to the given questions. Other answers are ignored, and
// unanswered questions are asked again (2026-07-28, basic/patterns/mrtr, "Error
// Handling").
func readAnswers(questions []*session.Question, params *mcp.Object) (map[string]session.Terminal, error) {
	given, err := inputResponses(params)
	if err != nil {
		return nil, err
	}
	answers := make(map[string]session.Terminal, len(questions))
	for _, q := range questions {
		raw, ok := given[q.Key]
		if !ok {
			continue
		}
		res, err := mcp.NewResult(raw)
		if err != nil || !question.IsAnswer(q.Method, raw) {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.inputResponses.%s is no answer to %s", q.Key, q.Method)
		}
		answers[q.Key] = session.Terminal{Result: res}
	}
	return answers, nil
}
