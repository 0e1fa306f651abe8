// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"slices"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/serial"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// route routes a message that arrived on a stream of the session, not of a call: the
// listening stream, the SSE stream, or the pipe. It does not wait.
func (s *clientSession) route(m *mcp.Message) {
	switch m.Kind {
	case mcp.KindResult, mcp.KindError:
		s.Respond(s.calls, m.ID, m)
	case mcp.KindRequest:
		s.routeRequest(m)
	case mcp.KindNotification:
		s.routeNotification(m)
	default:
	}
}

// concernsSession reports whether a message is for the session even on the stream of a
// call.
func concernsSession(m *mcp.Message) bool {
	switch m.Method {
	case call.MethodPing, call.MethodCancelled, listen.MethodTools, listen.MethodPrompts, listen.MethodResources, listen.MethodUpdated:
		return true
	default:
		return false
	}
}

// routeRequest selects the caller that a request of the server is passed to. Without a
// caller it refuses the request.
func (s *clientSession) routeRequest(m *mcp.Message) {
	if m.Method == call.MethodPing {
		s.sendLater(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
		return
	}
	if call := s.taskCall(m); call != nil && call.Push(m) == session.Queued {
		return
	}
	// The call delivers the request after the messages that were sent before it, and
	// its own caller answers.
	if call := s.callForRequest(); call != nil && call.Push(m) == session.Queued {
		return
	}
	if s.routing.unrelated != nil {
		s.serveUnrelatedRequest(m)
		return
	}
	if s.answerNoRoots(m) {
		return
	}
	s.sendError(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.60q: no client to ask: no request is in progress", m.Method))
}

// callForRequest returns the call that a request without an address is assumed to
// belong to. A list is not, because servers send requests right after the handshake,
// when the gateway lists. But its caller is asked if the client can be reached in no
// other way.
func (s *clientSession) callForRequest() *session.Call {
	call := s.onlyCall()
	if call != nil && s.routing.unrelated != nil && slices.Contains(listMethods(), call.Method()) {
		return nil
	}
	return call
}

// onlyCall returns the call that a message without an address is assumed to belong to:
// the only call in progress, on a stream that all calls share. With several calls there
// would be a choice, and in a session of several clients a late message of an abandoned
// call could reach another client.
//
// In a session of one client an abandoned call does not matter. Most servers stop on a
// cancellation and do not confirm that, so there is no telling how long to wait. A
// surplus log message in another call of the same client is a small harm. Losing the
// log messages of all its next calls, which a client without a listening stream gets in
// no other way, is not. A modern pipe does the same (logRouting.addressee).
func (s *clientSession) onlyCall() *session.Call {
	if !s.routing.onlyCall || s.routing.shared && s.abandoned.Recently() {
		return nil
	}
	// Messages about a task name it, and lists cause no requests; so another call is
	// the likelier owner.
	if call := s.calls.Only(append(listMethods(), call.MethodTasks)...); call != nil {
		return call
	}
	return s.calls.Only()
}

func listMethods() []string {
	return []string{call.MethodToolsList, "prompts/list", "resources/list", "resources/templates/list"}
}

// routeNotification passes a notification to the call or request that it names. One that
// names no call is about the session, or goes to routeOther.
func (s *clientSession) routeNotification(m *mcp.Message) {
	switch m.Method {
	case call.MethodProgress:
		if call := s.progressCall(m); call != nil {
			call.Push(m)
		}
	case call.MethodCancelled:
		if id, err := mcp.ParseID(m.Params.Raw(mcp.FieldRequestID)); err == nil {
			s.requests.cancel(id)
		}
	case listen.MethodTools:
		s.noteChange(listen.Tools)
	case listen.MethodPrompts:
		s.noteChange(listen.Prompts)
	case listen.MethodResources:
		s.noteChange(listen.Resources)
	case call.MethodTaskStatus:
		s.noteTaskStatus(m)
		if s.routing.unrelated != nil { // a client without a session uses a listen
			s.notifyLater(&s.unsolicited, &mcp.Notification{Method: m.Method, Params: m.Params}, s.routing.unrelated.Notify)
		}
	case listen.MethodUpdated:
		s.feed.UpdateResource(&mcp.Notification{Method: m.Method, Params: m.Params})
	default:
		s.routeOther(m)
	}
}

// taskCall returns the tasks/result call for the task that a message names, or nil.
func (s *clientSession) taskCall(m *mcp.Message) *session.Call {
	if !m.Params.Has(mcp.MetaRelatedTask) {
		return nil
	}
	task := task.RelatedID(m.Params.Raw(mcp.MetaRelatedTask))
	return s.calls.Find(s.tasks.resultCall(func(c taskResultCall) bool { return c.task == task }))
}

// progressCall returns the call that progress is for: the call of the token, or the
// tasks/result call for the task that it began.
func (s *clientSession) progressCall(m *mcp.Message) *session.Call {
	raw := m.Params.Raw(mcp.FieldProgressToken)
	if call := call.FindCall(s.calls, raw); call != nil {
		return call
	}
	token, err := mcp.ParseID(raw)
	if err != nil {
		return nil
	}
	return s.calls.Find(s.tasks.resultCall(func(c taskResultCall) bool { return !c.token.IsZero() && c.token == token }))
}

// noteTaskStatus wakes the listens for the task of a status notification. The owner of
// the task does not matter here, because nothing of the notification is passed on.
func (s *clientSession) noteTaskStatus(m *mcp.Message) {
	if m.Method != call.MethodTaskStatus || s.routing.tasks == nil {
		return
	}
	if id, ok := m.Params.Text(mcp.FieldTaskID); ok {
		s.routing.tasks.wake(id)
	}
}

// noteChange notifies the session's listens that a list has changed. If the session
// belongs to one client, it also calls Announced, because the server may not notify the
// session from which the gateway lists.
func (s *clientSession) noteChange(c listen.Lists) {
	s.feed.Mark(c)
	if s.routing.private || s.OneClient {
		s.Announced(s.routing.scope, false)
	}
}

// namedCall returns the call that a notification of an extension names by its progress token, or else
// onlyCall.
func (s *clientSession) namedCall(m *mcp.Message) *session.Call {
	if s.passes && !mcp.IsMethod(m.Method) && m.Params.Has(mcp.FieldProgressToken) {
		if call := s.progressCall(m); call != nil {
			return call
		}
	}
	return s.onlyCall()
}

// routeOther passes on notifications that name no call: log messages, and the end of an
// elicitation. They go to the only call in progress, or to routing.unrelated.
func (s *clientSession) routeOther(m *mcp.Message) {
	if call := s.namedCall(m); call != nil && call.Push(m) == session.Queued {
		return
	}
	n, ok := s.Redact(&mcp.Notification{Method: m.Method, Params: m.Params})
	if ok && s.routing.unrelated != nil {
		s.notifyLater(&s.unsolicited, n, s.routing.unrelated.Notify)
	}
}

// Bounds of what waits for a slow receiver, and of the responses being sent at a time.
const (
	maxQueuedNotifications = 64
	maxQueuedResponses     = 1024
	maxResponseSenders     = 4
)

// notifyLater sends a notification to a receiver that may be slow, for a reader that must
// not wait. Of these notifications only the latest matters, or they are best effort.
func (s *clientSession) notifyLater(q *serial.Queue[*mcp.Notification], n *mcp.Notification, send func(context.Context, *mcp.Notification) error) {
	q.Put(n, func(next func(context.Context) (*mcp.Notification, bool)) bool {
		// Ends when the queue is empty. Unowned, because the receiver may do anything,
		// including closing the client.
		return s.group.StartUnowned(func(ctx context.Context) {
			for n, ok := next(ctx); ok; n, ok = next(ctx) {
				_ = send(ctx, n) // best effort
			}
		})
	})
}

// sendLater sends a response that no goroutine waits for.
func (s *clientSession) sendLater(msg []byte) {
	dropped := s.responses.Put(msg, func(next func(context.Context) ([]byte, bool)) bool {
		// Ends when the queue is empty, or with the session, whose close waits for it.
		_, ok := s.group.Start(func(ctx context.Context) {
			for msg, ok := next(ctx); ok; msg, ok = next(ctx) {
				s.sendWithRetry(ctx, msg)
			}
		})
		return ok
	})
	if dropped == 1 {
		s.Log.Warn("backend sends requests faster than it accepts responses; dropping responses")
	}
}
