// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

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
	return s.protectState(ir.req, res)
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
	case s.sealsStates():
		e.SetText(mcp.FieldRequestState, s.sealState(stateSealed, req, time.Now().Add(stateTTL), raw))
	case stateKindOf(text) != "":
		e.Set(mcp.FieldRequestState, markState(raw))
	default:
		return res, nil
	}
	params, err := e.Apply(&res.Object)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Object: params}, nil
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
	var e mcp.Edit
	e.Delete(mcp.FieldInputResponses)
	e.Delete(mcp.FieldRequestState)
	r, err := withEdit(req, &e)
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
