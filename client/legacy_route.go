// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// route hands on a message that came on a stream which is no call's: the
// listening stream of a session, or a pipe. It waits for nobody.
func (s *legacySession) route(m *mcp.Message) {
	switch m.Kind {
	case mcp.KindResult, mcp.KindError:
		s.respond(s.calls, m.ID, m)
	case mcp.KindRequest:
		s.routeAsk(m)
	case mcp.KindNotification:
		s.routeNotification(m)
	default:
	}
}

// concernsSession reports whether a message is for the session even when it
// comes on the stream of a call.
func concernsSession(m *mcp.Message) bool {
	switch m.Method {
	case methodPing, methodCancelled, methodTools, methodPrompts, methodResources, methodUpdated:
		return true
	default:
		return false
	}
}

// routeAsk finds out who can be asked. An ask without an addressee is refused at
// once.
func (s *legacySession) routeAsk(m *mcp.Message) {
	if m.Method == methodPing {
		s.replies.put(s, mcp.AppendResult(nil, m.ID, []byte("{}")))
		return
	}
	if call := s.taskCall(m); call != nil && call.Push(m) == session.Queued {
		return
	}
	// Put into the call's cell and not asked here: it comes behind the messages that
	// were sent before it, and its answer is that of the call's own caller.
	if call := s.askingCall(); call != nil && call.Push(m) == session.Queued {
		return
	}
	if s.addr.unrelated != nil {
		s.askUnrelated(m)
		return
	}
	if s.hasNoRoots(m) {
		return
	}
	s.refuse(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.60q: there is nobody to ask: no request is being served", m.Method))
}

// askingCall returns the call that an ask without an address is taken to belong to. A list
// serverRequests nothing: servers ask right after the handshake, when the gateway lists. Only where
// the client cannot be asked otherwise is a list's caller asked.
func (s *legacySession) askingCall() *session.Call {
	call := s.onlyCall()
	if call != nil && s.addr.unrelated != nil && slices.Contains(listMethods(), call.Method()) {
		return nil
	}
	return call
}

// onlyCall returns the call that a message without an address is taken to belong to:
// on a stream that all calls share it is the one under way, if there is one alone.
// Among several it would be a guess, and in a session of several clients a late
// message of a call that was given up could reach another client.
//
// In a session of one client it is the only one still then. Most servers stop when
// they are told to, and do not say that they have, so that nobody could tell for how
// long to wait: a line too many in a call of the same client is a small harm, and
// the logs of all its next calls, which a client without a listening stream would
// not get at all, are not. On a modern pipe it is the same (hearing.addressee).
func (s *legacySession) onlyCall() *session.Call {
	if !s.addr.onlyCall || s.addr.shared && s.abandoned.recently() {
		return nil
	}
	// What is about a task names it, and a list asks nothing; what names nothing is
	// rather a call's.
	if call := s.calls.Only(append(listMethods(), methodTasks)...); call != nil {
		return call
	}
	return s.calls.Only()
}

func listMethods() []string {
	return []string{methodToolsList, "prompts/list", "resources/list", "resources/templates/list"}
}

// routeNotification gives a notification to the one it names. What names nobody is
// about the session's lists, or is nobody's.
func (s *legacySession) routeNotification(m *mcp.Message) {
	switch m.Method {
	case methodProgress:
		if call := s.progressCall(m); call != nil {
			call.Push(m)
		}
	case methodCancelled:
		if id, err := mcp.ParseID(m.Params.Raw(mcp.FieldRequestID)); err == nil {
			s.asks.cancel(id)
		}
	case methodTools:
		s.noteChange(changedTools)
	case methodPrompts:
		s.noteChange(changedPrompts)
	case methodResources:
		s.noteChange(changedResources)
	case methodTaskStatus:
		s.noteTask(m)
		s.routeStatus(m)
	case methodUpdated:
		s.feed.update(&mcp.Notification{Method: m.Method, Params: m.Params})
	default:
		s.routeOther(m)
	}
}

// noteChange tells the listens of the session that a list has changed. Where the session is
// one client's, it also calls Announced, because the session of the lists need not be told.
func (s *legacySession) noteChange(c changes) {
	s.feed.mark(c)
	if s.addr.private || s.OneClient {
		s.Announced(s.addr.scope, false)
	}
}

// routeOther hands on what has no address of its own: log messages, the state of
// a task, the end of an elicitation.
func (s *legacySession) routeOther(m *mcp.Message) {
	if call := s.onlyCall(); call != nil && call.Push(m) == session.Queued {
		return
	}
	n, ok := s.redact(&mcp.Notification{Method: m.Method, Params: m.Params})
	if ok && s.addr.unrelated != nil {
		s.stray.put(&s.tasks, s.addr.unrelated, n)
	}
}
