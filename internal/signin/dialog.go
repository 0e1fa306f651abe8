// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// How long a call waits for a sign-in that its user has agreed to, unless it is configured.
const (
	DefaultWait       = 2 * time.Minute  // in a session
	DefaultModernWait = 25 * time.Second // else: the client asks again
)

// progressInterval is the time between two progress notifications of a call that waits.
const progressInterval = 10 * time.Second

// inputKey is the key of the question in a result of type input_required.
const inputKey = "signin"

// Handler serves the requests of users to one backend. One that ends with a *grant.Missing was not
// dispatched: the user is asked to sign in, as the revision and the capabilities of the client
// allow, and then the request is sent (again). It is safe for concurrent use.
type Handler struct {
	Next    mcp.Handler // the backend
	Desk    *Desk
	Backend string // its configured name

	// Source is what the users sign in for. If it is nil, they sign in at the identity provider
	// of the Desk alone, and the backend is called with what they have proved there.
	Source *grant.Source

	// IsSingle is whether all requests are those of the principal "".
	IsSingle bool

	// Wait is how long a call waits for a sign-in that its user has agreed to; 0 is the default
	// of its era.
	Wait time.Duration

	// Rounds is how often the client may be asked during a request.
	Rounds int
}

// Serve serves a request.
func (h *Handler) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	rounds := 0
	if req.Resumed != nil {
		if res, err, ended := h.resume(ctx, req, caller); ended {
			return res, err
		}
		rounds = req.Resumed.Rounds
	}
	for {
		res, err := h.Next.Serve(ctx, req, caller)
		missing := missingOf(err)
		if missing == nil {
			return res, err
		}
		p, err := h.Desk.begin(ctx, missing, h.Source)
		if err != nil {
			return nil, h.notBegun(err)
		}
		rounds++
		how := h.wayFor(req)
		if rounds > h.Rounds {
			how = byText
		}
		switch how {
		case byInput:
			return inputRequired(p)
		case byAsking:
			res, err, goesOn := h.ask(ctx, req, caller, p)
			if !goesOn {
				return res, err
			}
		default:
			return h.answer(req, p, textFor(p, missing))
		}
	}
}

// IsMissing reports whether a request was not dispatched because its user has to sign in.
func IsMissing(err error) bool { return err != nil && missingOf(err) != nil }

// missingOf returns the *grant.Missing of a request that was not dispatched, or nil.
func missingOf(err error) *grant.Missing {
	missing, ok := errors.AsType[*grant.Missing](err)
	if !ok {
		return nil
	}
	if f, ok := errors.AsType[*mcp.Fault](err); ok && f.Outcome != mcp.NotDispatched {
		return nil
	}
	return missing
}

// way is how the user of a client is asked.
type way int

const (
	byText   way = iota // for the model, or the user, to read
	byInput             // a result of type input_required
	byAsking            // elicitation/create
)

// wayFor returns how the user of a request is asked.
func (h *Handler) wayFor(req *mcp.Request) way {
	switch {
	case !mayAsk(req.Method) || undeclared(req) != "":
		return byText
	case req.TakesInputRequired:
		return byInput
	case isModern(req):
		return byAsking // the request is within a call, which asks
	case req.Client.Version == mcp.V20251125:
		return byAsking
	default:
		return byText // URLs came with 2025-11-25
	}
}

func isModern(req *mcp.Request) bool { return req.Client.Version.Era() == mcp.EraModern }

// mayAsk reports whether a user can be asked during requests of a method, in all revisions.
func mayAsk(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// undeclared returns the capability that the client lacks to be asked, or "".
func undeclared(req *mcp.Request) string {
	missing, _ := question.Missing(req.Client.Capabilities, elicitation("", "", ""))
	return missing
}

// elicitation returns the question. An id is of 2025-11-25.
func elicitation(backend, url, id string) *mcp.Request {
	params, _ := json.Marshal(elicitParams{Mode: "url", URL: url, Message: "Sign in to " + backend, ID: id}) // texts have no errors
	ask, _ := mcp.NewRequest("elicitation/create", params)                                                   // nor has an object
	return ask
}

type elicitParams struct {
	Mode    string `json:"mode"`
	URL     string `json:"url"`
	Message string `json:"message"`
	ID      string `json:"elicitationId,omitempty"`
}

// inputRequired asks a client of 2026-07-28.
func inputRequired(p *pending) (*mcp.Result, error) {
	ask := elicitation(p.backend, p.url, "")
	raw := append([]byte(`{"resultType":"input_required","inputRequests":{"`+inputKey+`":{"method":"elicitation/create","params":`), ask.Params.Bytes()...)
	res, err := mcp.NewResult(append(raw, "}}}"...))
	if err != nil {
		return nil, err
	}
	res.Resume = []byte(p.id)
	return res, nil
}

// resume continues with the answer of a client of 2026-07-28. Unless the request has ended, it is
// to be served.
func (h *Handler) resume(ctx context.Context, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error, ended bool) {
	principal := req.Principal
	if h.IsSingle {
		principal = ""
	}
	p := h.Desk.find(string(req.Resumed.State))
	if p == nil || p.principal != principal || p.backend != h.Backend {
		return nil, nil, false // it has ended, or the gateway was restarted
	}
	answer := req.Resumed.Answers[inputKey]
	if answer == nil || !question.IsAnswer("elicitation/create", answer.Bytes()) {
		return nil, nil, false // asked again
	}
	if question.Action(answer.Bytes()) != "accept" {
		res, err = h.declined(ctx, req, p)
		return res, err, true
	}
	switch h.wait(ctx, req, caller, p, DefaultModernWait) {
	case refused:
		res, err = h.answer(req, p, refusedText(p))
		return res, err, true
	default:
		return nil, context.Cause(ctx), ctx.Err() != nil
	}
}

// ask asks a client of 2025-11-25 on the stream of the call, and one of 2026-07-28 by its Caller. The
// request goes on when the user has signed in. In 2026-07-28 an elicitation has neither an id nor
// an end that the client is notified of, and a user that takes long is asked again.
func (h *Handler) ask(ctx context.Context, req *mcp.Request, caller mcp.Caller, p *pending) (res *mcp.Result, err error, goesOn bool) {
	id, most := p.id, DefaultWait
	if isModern(req) {
		id, most = "", DefaultModernWait
	}
	ask := elicitation(p.backend, p.url, id)
	answer, err := mcp.Ask(ctx, caller, ask)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx), false
	case (err != nil || answer == nil) && isModern(req):
		res, err = h.answer(req, p, textOf(p))
		return res, err, false
	case err != nil || answer == nil: // it was not delivered, or not answered
		return nil, h.required(req, p, ask), false
	case question.Action(answer.Bytes()) != "accept":
		res, err = h.declined(ctx, req, p)
		return res, err, false
	}
	switch h.wait(ctx, req, caller, p, most) {
	case done:
		if !isModern(req) {
			_ = caller.Notify(ctx, completion(p)) // a convenience: an error changes nothing
		}
		return nil, nil, true
	case refused:
		res, err = h.answer(req, p, refusedText(p))
		return res, err, false
	default:
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx), false
		case isModern(req):
			return nil, nil, true
		}
	}
	return nil, h.required(req, p, ask), false
}

// required ends a request with the URL to open before it is sent again (2025-11-25,
// client/elicitation, "URL Elicitation Required Error").
func (h *Handler) required(req *mcp.Request, p *pending, ask *mcp.Request) error {
	h.Desk.notifyLater(p, req.Scope)
	data := append([]byte(`{"elicitations":[`), ask.Params.Bytes()...)
	return &mcp.Error{Code: mcp.CodeURLElicitationRequired, Message: textOf(p), Data: append(data, "]}"...)}
}

// completion notifies a client of 2025-11-25 that the user has signed in.
func completion(p *pending) *mcp.Notification {
	params := append(jsonscan.AppendString([]byte(`{"elicitationId":`), p.id), '}')
	n, err := mcp.NewNotification("notifications/elicitation/complete", params)
	if err != nil {
		return &mcp.Notification{Method: "notifications/elicitation/complete"} // the text is JSON
	}
	return n
}

// wait waits for a sign-in, and reports progress if the client has requested that.
func (h *Handler) wait(ctx context.Context, req *mcp.Request, caller mcp.Caller, p *pending, most time.Duration) outcome {
	if h.Wait > 0 {
		most = h.Wait
	}
	token, n := req.Params.Raw(mcp.MetaProgressToken), 0
	return h.Desk.wait(ctx, p, most, func() {
		if token == nil || string(token) == "null" {
			return
		}
		n++
		params := append([]byte(`{"progressToken":`), token...)
		params = append(params, `,"progress":`+strconv.Itoa(n)+`,"message":`...)
		params = append(jsonscan.AppendString(params, "waiting for the sign-in to "+p.backend), '}')
		if note, err := mcp.NewNotification("notifications/progress", params); err == nil {
			_ = caller.Notify(ctx, note) // a convenience
		}
	})
}

func (h *Handler) declined(ctx context.Context, req *mcp.Request, p *pending) (*mcp.Result, error) {
	h.Desk.event(ctx, Event{Kind: Failed, Principal: p.principal, Backend: p.backend, Detail: "declined"})
	return h.answer(req, p, textOf(p))
}

// textFor returns what to do, with the reason if the user had signed in before.
func textFor(p *pending, m *grant.Missing) string {
	if m.Reason == grant.NeverSignedIn {
		return textOf(p)
	}
	return fmt.Sprintf("%q: %s. Open %s in a browser, then call this again.%s", p.backend, m.Error(), p.url, p.inTerminal())
}

func textOf(p *pending) string {
	return fmt.Sprintf("%q needs you to sign in first. Open %s in a browser, then call this again.%s", p.backend, p.url, p.inTerminal())
}

// inTerminal returns the other way to sign in, if there is one.
func (p *pending) inTerminal() string {
	if p.source == nil {
		return ""
	}
	return " (In a terminal: signalbox login " + p.backend + ")"
}

func refusedText(p *pending) string {
	if p.source == nil {
		return fmt.Sprintf("The sign-in for %q was refused at the identity provider. To try again, open %s in a browser, then call this again.", p.backend, p.url)
	}
	return fmt.Sprintf("The sign-in to %q was refused at its authorization server. To try again, open %s in a browser, then call this again.", p.backend, p.url)
}

// answer ends a request with a text: a result of a tool, which a model can read, or an error.
func (h *Handler) answer(req *mcp.Request, p *pending, text string) (*mcp.Result, error) {
	if req.Method == "tools/call" {
		raw := jsonscan.AppendString([]byte(`{"content":[{"type":"text","text":`), text)
		raw = append(raw, `}],"isError":true`...)
		if isModern(req) {
			raw = append(raw, `,"resultType":"complete"`...)
		}
		return mcp.NewResult(append(raw, '}'))
	}
	if missing := undeclared(req); missing != "" && isModern(req) && mayAsk(req.Method) {
		err := question.Undeclared("elicitation/create", missing)
		err.Message = text
		return nil, err
	}
	data, err := json.Marshal(struct {
		Source  string      `json:"source"`
		Outcome mcp.Outcome `json:"outcome"`
		Backend string      `json:"backend"`
		Code    string      `json:"code"`
		SignIn  string      `json:"signin"`
	}{"gateway", mcp.NotDispatched, p.backend, code.AuthSignIn, p.url})
	if err != nil {
		return nil, err
	}
	return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: text, Data: data}
}

// notBegun returns the error of a request for which no sign-in can begin.
func (h *Handler) notBegun(err error) error {
	f := &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: h.Backend, Reason: code.AuthSignIn, Cause: err}
	switch {
	case errors.Is(err, ErrFull):
		f.Code, f.Message = mcp.CodeLimit, "too many sign-ins have begun; try again later"
		return &mcp.Denied{Status: http.StatusTooManyRequests, RetryAfter: time.Minute, Err: f.Wire()}
	case errors.Is(err, errNoProvider):
		f.Message = "a user has to sign in at the identity provider first, which needs auth.browser in the configuration of the gateway"
	case errors.Is(err, errNoPages):
		f.Message = fmt.Sprintf("a user has to sign in first, in a terminal: signalbox login %s", h.Backend)
	default:
		f.Message = fmt.Sprintf("a user has to sign in first, and the gateway cannot show a page for that; in a terminal: signalbox login %s", h.Backend)
	}
	return f
}
