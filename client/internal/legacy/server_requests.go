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

// serverRequest is one of them.
type serverRequest struct {
	cancel    context.CancelFunc
	previous  <-chan struct{} // closed when the request before this one has been forwarded; may be nil
	forwarded chan struct{}   // closed when this one has been forwarded, or never will be
	once      sync.Once       // closes forwarded
}

// begin registers a request that cancel ends. It returns an error if the request must be
// refused.
func (a *serverRequests) begin(id mcp.ID, cancel context.CancelFunc) (*serverRequest, *mcp.Error) {
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
	r := &serverRequest{cancel: cancel, previous: a.last, forwarded: make(chan struct{})}
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

// isEmpty reports whether no request waits for an answer.
func (a *serverRequests) isEmpty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count == 0
}

// end frees the id.
func (a *serverRequests) end(id mcp.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

// cancel cancels the request with the id, at the server's notifications/cancelled. The
// id stays in use until the request has ended.
func (a *serverRequests) cancel(id mcp.ID) {
	a.mu.Lock()
	r := a.open[id]
	a.mu.Unlock()
	if r != nil {
		r.cancel() // outside the lock: it may run code of others
	}
}

// serveUnrelatedRequest is serveRequest for a request that belongs to no call.
//
//nolint:contextcheck,nolintlint // such a request ends with its session only
func (s *clientSession) serveUnrelatedRequest(m *mcp.Message) {
	s.serveRequest(context.Background(), m, s.routing.unrelated, true)
}

// serveRequest asks the caller a backend's request and sends the answer, in a goroutine
// of its own, or refuses the request. It ends with ctx, with the session, or when the
// backend cancels it. toOwner means that the caller is the client that owns the session;
// the backend may send requests about the tasks of that client.
//
//nolint:contextcheck,nolintlint // the answer is sent even if ctx has ended
func (s *clientSession) serveRequest(ctx context.Context, raw *mcp.Message, caller mcp.Caller, toOwner bool) {
	if isClientTaskRequest(raw) && !toOwner {
		s.serveUnrelatedRequest(raw)
		return
	}
	m, refusal := raw, (*mcp.Error)(nil)
	if !s.isPassed(raw) {
		m, refusal = s.clientTasks.admit(raw, toOwner)
	}
	if refusal != nil {
		s.sendError(raw.ID, refusal)
		return
	}
	own, cancel := context.WithCancel(context.Background())
	r, refusal := s.requests.begin(m.ID, cancel)
	if refusal != nil {
		cancel()
		s.sendError(m.ID, refusal)
		return
	}
	if !s.isPassed(m) {
		s.clientTasks.begin(m)
	}
	// The session's close lets the answer be sent, as it does cancellations: the server
	// may receive an answer and a cancellation in any order, and waits for the answer. It
	// does not wait for a Caller that does not return, because the Caller may do
	// anything, including closing this client.
	sending, stop := context.WithCancel(context.Background())
	finish := func(res *mcp.Result) {
		if !s.isPassed(m) {
			s.settleClientTask(m, res)
		}
		s.requests.release()
		s.sends.Remove(&stop)
		stop()
	}
	notStopped := context.AfterFunc(sending, func() { finish(nil) })
	// Ends when the answer has been sent, or when the Caller returns after the session's
	// close.
	ok := s.sends.Add(&stop, true) && s.group.Launch(cancel, false, func() {
		res, err := s.askCaller(ctx, own, r, m, caller)
		if err == nil && res != nil && !s.isPassed(m) {
			res, err = s.clientTasks.readAnswer(m, res)
		}
		if notStopped() {
			s.sendAnswer(sending, m, res, err)
			finish(res)
		}
	})
	if !ok { // the session has been closed
		cancel()
		if notStopped() {
			finish(nil)
		}
	}
}

// askCaller asks the caller and returns its answer. ctx is that of the call which the
// request is assumed to belong to. own is the request's: the server's cancellation and
// the session's end cancel it. askCaller frees the id.
func (s *clientSession) askCaller(ctx, own context.Context, r *serverRequest, m *mcp.Message, caller mcp.Caller) (*mcp.Result, error) {
	defer s.requests.end(m.ID)
	defer r.markForwarded()
	res, err := s.askUntil(ctx, own, r, m, caller)
	switch {
	case err == nil || ctx.Err() == nil || own.Err() != nil:
		return res, err
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

// askUntil asks a caller until either context ends. It waits until the server's previous
// request has been forwarded, so that a user sees the requests in the server's order.
func (s *clientSession) askUntil(ctx, own context.Context, r *serverRequest, m *mcp.Message, caller mcp.Caller) (*mcp.Result, error) {
	ended := mcp.Errorf(mcp.CodeInternalError, "the request that this one belongs to has ended")
	ctx, cancel := call.Both(ctx, own)
	defer cancel()
	if r.previous != nil {
		select {
		case <-r.previous: // soon: forwarding does not wait for answers
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return nil, ended
	}
	wait, err := s.StartSafely(ctx, caller, &mcp.Request{Method: m.Method, Params: m.Params, Client: s.Self(), Passed: s.isPassed(m)})
	r.markForwarded()
	var res *mcp.Result
	if err == nil {
		res, err = wait()
	}
	if err != nil && ctx.Err() != nil {
		return nil, ended
	}
	return res, err
}

// isPassed reports whether a request of the server is of an extension that the client may know.
func (s *clientSession) isPassed(m *mcp.Message) bool { return s.passes && !mcp.IsMethod(m.Method) }

// markForwarded allows the next request to be forwarded.
func (r *serverRequest) markForwarded() { r.once.Do(func() { close(r.forwarded) }) }

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
