// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// startAsk sends a question to a legacy client on a stream: that of the request which the
// question belongs to, or the standalone one. It is Start of a Caller.
func (s *Server) startAsk(ctx context.Context, sess *session.Session, stream *session.Stream, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if err := checkDeclared(sess.Client, req); err != nil {
		return nil, err
	}
	a, err := stream.Ask(req.Method, legacyAsk(sess.Client.Version, req), req.Params.Beside())
	if err != nil {
		return nil, askFault(err)
	}
	return func() (*mcp.Result, error) { return s.awaitAnswer(ctx, stream, a) }, nil
}

// awaitAnswer waits for the answer to a question until ctx ends, and no longer than
// limits.inputWait, as in the modern era. The bound is needed because a Handler may have
// stopped the clock of its request while it asks, so that nothing else ends the request
// of a client that never answers. A question that no consumer has taken within
// askDelivery is on no connection and fails early, so that a Handler does not hang on a
// client that never opened a stream (I37).
func (s *Server) awaitAnswer(ctx context.Context, stream *session.Stream, a *session.Ask) (*mcp.Result, error) {
	asked := time.Now()
	late, unanswered := time.NewTimer(askDelivery), time.NewTimer(s.cfg.Limits.InputWait)
	defer late.Stop()
	defer unanswered.Stop()
	for {
		select {
		case <-a.Done():
			end := a.Answer()
			return end.Result, askFault(end.Err)
		case <-late.C:
			if more := askDelivery + stream.Retry() - time.Since(asked); more > 0 {
				late.Reset(more) // the client was given a time to reconnect
				continue
			}
			stream.WithdrawUntaken(a, session.ErrNoReceiver)
		case <-unanswered.C:
			s.withdraw(stream, a, s.notAnswered())
		case <-ctx.Done():
			s.withdraw(stream, a, context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	}
}

// notAnswered is the error of a question that the client has not answered in time.
func (s *Server) notAnswered() error {
	return &mcp.Fault{Code: mcp.CodeDeadline, Message: fmt.Sprintf("the client did not answer within %v (limits.inputWait)", s.cfg.Limits.InputWait)}
}

// legacyAsk returns the parameters of a question for a client of the revision. A URL
// elicitation needs an id in the legacy era. A form needs no mode, and before 2025-11-25
// a client may not know that member.
func legacyAsk(v mcp.Version, req *mcp.Request) []byte {
	params := revision.Ask(v, req.Method, &req.Params)
	if req.Method != "elicitation/create" {
		return params
	}
	switch mode, _ := req.Params.Text(mcp.FieldMode); {
	case mode != "url" && v >= mcp.V20251125:
		return params
	case mode != "url":
		return mcp.RewriteMembers(params, func(name string, value []byte) []byte {
			if name == "mode" {
				return nil
			}
			return value
		})
	}
	for name := range mcp.Members(params) {
		if name == "elicitationId" {
			return params
		}
	}
	return mcp.WithMember(params, "elicitationId", mcp.AppendString(nil, rand.Text()))
}

// withdraw cancels a question, and notifies the client if the question was sent.
func (s *Server) withdraw(stream *session.Stream, a *session.Ask, why error) {
	if !stream.Withdraw(a, why) {
		return
	}
	// Dropped if the stream is full: the client's answer is ignored anyway.
	_, _ = stream.Append(a.Withdrawal())
}

// askFault returns the error of a question without an answer for the Handler. It is a
// Fault, which reaches the server that asked as an error of its own request and never as
// an invented answer.
func askFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrNoReceiver):
		return &mcp.Fault{Code: mcp.CodeUnsupported, Message: "the client has no open stream for the question", Cause: err}
	case errors.Is(err, session.ErrTooMany):
		return &mcp.Fault{Code: mcp.CodeLimit, Message: "the client has too many questions to answer", Cause: err}
	case errors.Is(err, session.ErrEnded):
		return &mcp.Fault{Code: mcp.CodeSessionEnded, Message: "the session of the client has ended", Cause: err}
	default:
		return err
	}
}

// checkDeclared refuses a question that the client did not declare it can answer
// (2025-11-25, basic/lifecycle, "Operation"; 2026-07-28, basic/patterns/mrtr, "Server
// Requirements").
func checkDeclared(client *mcp.Peer, req *mcp.Request) error {
	missing, known := question.Missing(client.Capabilities, req)
	switch {
	case missing != "":
		return question.Undeclared(req.Method, missing)
	case known:
		return nil
	}
	switch req.Method {
	case "tasks/get", "tasks/result", "tasks/list", "tasks/cancel":
		return checkRunsTasks(client, req.Method)
	default:
		return mcp.Errorf(mcp.CodeMethodNotFound, "a client cannot be asked for %s", escape(req.Method))
	}
}

// checkRunsTasks refuses a question about the tasks of a client that declared none
// (2025-11-25, basic/utilities/tasks, "Client Capabilities").
func checkRunsTasks(client *mcp.Peer, method string) error {
	if client.Version.Era() == mcp.EraLegacy && tasks.ClientOfferOf(client.Capabilities).Serves(method) {
		return nil
	}
	return mcp.Errorf(mcp.CodeMethodNotFound, "the client did not declare %s", method)
}
