// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// serverRequests are the requests that the backend has sent in one session and that are
// not answered yet. The zero value is ready.
//
// An id is free before its answer is sent, because the server may reuse it on receipt.
// The request is counted until after that: otherwise a server that does not accept
// responses could have any number pending.
type serverRequests struct {
	slot *questionSlot // acquired while count > 0

	mu    sync.Mutex
	open  map[mcp.ID]*serverRequest // by id, until there is an answer
	count int                       // until the answer has been sent
	last  <-chan struct{}           // forwarded of the newest request, nil before the first
}

// serverRequest is one of them. The server may cancel it before it has been forwarded.
type serverRequest struct {
	previous  <-chan struct{} // closed when the request before this one has been forwarded; may be nil
	forwarded chan struct{}   // closed when this one has been forwarded, or never will be
	once      sync.Once       // closes forwarded

	// The fields below are guarded by serverRequests.mu.
	cancel    context.CancelFunc // nil until it is forwarded
	withdrawn bool
}

// begin registers a request. It returns an error if the request must be refused.
func (a *serverRequests) begin(id mcp.ID) (*serverRequest, *mcp.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, taken := a.open[id]; taken {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "a request with this id is already waiting for an answer")
	}
	if a.count >= call.MaxServerRequests {
		return nil, mcp.Errorf(mcp.CodeInternalError, "%d requests are already waiting for an answer", call.MaxServerRequests)
	}
	if a.count == 0 {
		if err := a.slot.acquire(); err != nil {
			return nil, err
		}
	}
	if a.open == nil {
		a.open = make(map[mcp.ID]*serverRequest)
	}
	r := &serverRequest{previous: a.last, forwarded: make(chan struct{})}
	a.open[id], a.last = r, r.forwarded
	a.count++
	return r, nil
}

// release ends the count of a request.
func (a *serverRequests) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count--; a.count == 0 {
		a.slot.release()
	}
}

// end frees the id.
func (a *serverRequests) end(id mcp.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

// bind sets the function that cancels a request while its client is asked. If the
// server has cancelled the request already, bind calls it.
func (a *serverRequests) bind(r *serverRequest, cancel context.CancelFunc) {
	if a.arm(r, cancel) {
		cancel()
	}
}

func (a *serverRequests) arm(r *serverRequest, cancel context.CancelFunc) (withdrawn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.cancel = cancel
	return r.withdrawn
}

// cancel cancels the request with the id, at the server's notifications/cancelled. The
// id stays in use until the request has ended.
func (a *serverRequests) cancel(id mcp.ID) {
	if cancel := a.withdraw(id); cancel != nil {
		cancel()
	}
}

func (a *serverRequests) withdraw(id mcp.ID) context.CancelFunc {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.open[id]
	if r == nil {
		return nil
	}
	r.withdrawn = true
	return r.cancel
}

// serveRequest asks the caller a backend's request and sends the answer. The request
// ends with ctx, with the session, or when the backend cancels it. atHome means that
// the caller is the client that owns the session; the backend may send requests about
// the tasks of that client.
func (s *clientSession) serveRequest(ctx context.Context, m *mcp.Message, caller mcp.Caller, atHome bool) {
	if isClientTaskRequest(m) && !atHome {
		s.serveUnrelatedRequest(m)
		return
	}
	s.startRequest(m, atHome, func(life context.Context, r *serverRequest, m *mcp.Message) (*mcp.Result, error) {
		return s.askCaller(ctx, life, r, m, caller)
	})
}

// serveUnrelatedRequest is serveRequest for a request that belongs to no call.
func (s *clientSession) serveUnrelatedRequest(m *mcp.Message) {
	s.startRequest(m, true, func(life context.Context, r *serverRequest, m *mcp.Message) (*mcp.Result, error) {
		return s.askCaller(life, life, r, m, s.routing.unrelated)
	})
}

// startRequest serves a request in a goroutine of its own, or refuses it. The session
// does not wait for that goroutine, because the Caller may do anything, including
// closing this client.
func (s *clientSession) startRequest(raw *mcp.Message, atHome bool, serve func(life context.Context, r *serverRequest, m *mcp.Message) (*mcp.Result, error)) {
	m, err := s.clientTasks.admit(raw, atHome)
	if err != nil {
		s.sendError(raw.ID, err)
		return
	}
	r, err := s.requests.begin(m.ID)
	if err != nil {
		s.sendError(m.ID, err)
		return
	}
	s.clientTasks.begin(m)
	end := make(chan session.Terminal, 1)
	// Ends when the answer has been sent. The session's close lets it finish, as it
	// does cancellations: the server may receive an answer and a cancellation in any
	// order, and waits for the answer.
	_, open := s.sends.Start(func(ctx context.Context) {
		defer s.requests.release()
		select {
		case t := <-end:
			s.sendAnswer(ctx, m, t.Result, t.Err)
			s.settleClientTask(m, t.Result)
		case <-ctx.Done(): // the Caller has not returned
			s.settleClientTask(m, nil)
		}
	})
	if !open {
		s.settleClientTask(m, nil)
		s.requests.release()
	}
	// Ends when the Caller returns. Its context ends with the session.
	begun := s.group.StartUnowned(func(life context.Context) {
		res, err := serve(life, r, m)
		if err == nil && res != nil {
			res, err = s.clientTasks.readAnswer(m, res)
		}
		end <- session.Terminal{Result: res, Err: err}
	})
	if !begun {
		end <- session.Terminal{Err: errRequestEnded()}
	}
}

// askCaller asks the caller and returns its answer. ctx is that of the call which the
// request is assumed to belong to, life is the session's. askCaller frees the id.
func (s *clientSession) askCaller(ctx, life context.Context, r *serverRequest, m *mcp.Message, caller mcp.Caller) (*mcp.Result, error) {
	defer s.requests.end(m.ID)
	defer r.markForwarded()
	own, cancel := context.WithCancel(life)
	defer cancel()
	s.requests.bind(r, cancel)
	res, err := s.askUntil(ctx, own, r, m, caller)
	if err == nil || ctx.Err() == nil || own.Err() != nil {
		return res, err
	}
	switch {
	case s.canAskUnrelated(m):
		return s.askUntil(own, own, r, m, s.routing.unrelated)
	case s.isOwnRootsRequest(m):
		return mcp.NewResult([]byte(noRoots))
	default:
		return res, err
	}
}

// canAskUnrelated reports whether a request may go to routing.unrelated after its call
// has ended.
//
// A client's task outlives the call that began it, and so do the requests on the task
// (2025-11-25, basic/utilities/tasks), which are safe to repeat. On a shared stream the
// call was a guess, and the guess was wrong if the call ends before the request is
// answered. But the client may have seen the request by then, so only a request that is
// safe to repeat qualifies: roots/list, which is what servers send outside of calls.
func (s *clientSession) canAskUnrelated(m *mcp.Message) bool {
	return s.routing.unrelated != nil && (isClientTaskRequest(m) || s.routing.onlyCall && m.Method == call.MethodRoots)
}

// askUntil asks a caller until either context ends.
func (s *clientSession) askUntil(ctx, own context.Context, r *serverRequest, m *mcp.Message, caller mcp.Caller) (*mcp.Result, error) {
	ctx, cancel := call.Both(ctx, own)
	defer cancel()
	if ctx.Err() == nil {
		res, err := s.askInOrder(ctx, r, caller, &mcp.Request{Method: m.Method, Params: m.Params, Client: s.Self()})
		if err == nil || ctx.Err() == nil {
			return res, err
		}
	}
	return nil, errRequestEnded()
}

// errRequestEnded is the answer to a request when its caller cannot be asked any
// longer.
func errRequestEnded() error {
	return mcp.Errorf(mcp.CodeInternalError, "the request that this one belongs to has ended")
}

// askInOrder asks the caller after the server's previous request has been forwarded, so
// that a user sees the requests in the server's order.
func (s *clientSession) askInOrder(ctx context.Context, r *serverRequest, caller mcp.Caller, req *mcp.Request) (*mcp.Result, error) {
	if r.previous != nil {
		select {
		case <-r.previous: // soon: forwarding does not wait for answers
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	wait, err := s.StartSafely(ctx, caller, req)
	r.markForwarded()
	if err != nil {
		return nil, err
	}
	return wait()
}

// markForwarded allows the next request to be forwarded.
func (a *serverRequest) markForwarded() { a.once.Do(func() { close(a.forwarded) }) }

// sendAnswer sends the answer to a request. It sends one in any case: the server waits
// for it, and the client's own call may wait for the server.
func (s *clientSession) sendAnswer(ctx context.Context, m *mcp.Message, res *mcp.Result, err error) {
	switch {
	case err != nil:
		s.sendWithRetry(ctx, jsonrpc.AppendError(nil, m.ID, revision.AskError(s.version, m.Method, mcp.ToWire(err))))
	case res == nil:
		s.sendWithRetry(ctx, jsonrpc.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeInternalError, "no answer")))
	default:
		answer := jsonrpc.AppendResult(nil, m.ID, revision.Answer(s.version, m.Method, &m.Params, res.Bytes()))
		s.sendWithRetry(ctx, jsonrpc.AppendBeside(answer, res.Beside()))
	}
}

// maxSendAttempts bounds the attempts to send a message. With immediate failures they
// span some five seconds, in which a server can restart; then it has forgotten the
// request.
const maxSendAttempts = 6

// sendWithRetry sends a message that the server waits for, until it has arrived.
// Sending it twice does no harm: a response is not executed, and the second one is
// ignored.
func (s *clientSession) sendWithRetry(ctx context.Context, msg []byte) {
	for n := range maxSendAttempts {
		if !isRetryableSend(s.send(ctx, msg)) || !backoff.Sleep(ctx, call.ResendDelay(n+1)) {
			return
		}
	}
}

// isRetryableSend reports whether a message that failed with err may be sent again: the
// connection broke, timed out, or the server is busy or did not read the whole message.
func isRetryableSend(err error) bool {
	f, ok := call.Unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	return ok && f.Code != mcp.CodeShuttingDown && (!call.IsRefusal(f) || call.IsRejected(err, call.Busy))
}

// sendError answers a request with an error, without waiting.
func (s *clientSession) sendError(id mcp.ID, err *mcp.Error) {
	s.sendLater(jsonrpc.AppendError(nil, id, err))
}

// refuseRequest refuses a request that the server sends during a call of the session's
// own.
func (s *clientSession) refuseRequest(m *mcp.Message) {
	if s.answerNoRoots(m) {
		return
	}
	s.sendError(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.60q: no client to ask", m.Method))
}

// answerNoRoots answers a roots/list that belongs to no client with an empty list. Many
// servers send one right after the handshake and treat an error as a failure. It
// reports whether m was such a request.
func (s *clientSession) answerNoRoots(m *mcp.Message) bool {
	if !s.isOwnRootsRequest(m) {
		return false
	}
	s.sendLater(jsonrpc.AppendResult(nil, m.ID, []byte(noRoots)))
	return true
}

// noRoots is the result of roots/list without a client.
const noRoots = `{"roots":[]}`

// isOwnRootsRequest reports whether m is a roots/list in a session that belongs to no
// client.
func (s *clientSession) isOwnRootsRequest(m *mcp.Message) bool {
	return m.Method == call.MethodRoots && !s.routing.private && !s.routing.shared
}
