// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxAsks bounds the asks of one session that wait for an answer.
const maxAsks = 16

// serverRequests are the requests of one backend session to its client while they wait for
// an answer. The zero value is ready.
//
// An id is free before its answer leaves, because the server may use it again as
// soon as it has that. The place of an ask is free after it: a server that asks and
// takes no answers would have as many of them wait as it likes.
type serverRequests struct {
	of *questionPlace // taken while any of them waits

	mu     sync.Mutex
	open   map[mcp.ID]*ask // by id, until there is an answer
	places int             // taken, until that is sent
	last   <-chan struct{} // put of the ask that came last, nil before the first
}

// ask is one of them. It may be taken back before it has been put.
type ask struct {
	before <-chan struct{} // closed when the ask before this one has been put, or nil
	put    chan struct{}   // closed when this one has been, or never will be
	placed sync.Once       // closes put

	// Below: guarded by asks.mu.
	cancel    context.CancelFunc // nil until it is put
	withdrawn bool
}

// begin notes an ask, or says why it is not taken.
func (a *serverRequests) begin(id mcp.ID) (*ask, *mcp.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, taken := a.open[id]; taken {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "a request of this id is waiting for an answer")
	}
	if a.places >= maxAsks {
		return nil, mcp.Errorf(mcp.CodeInternalError, "%d requests are waiting for an answer", maxAsks)
	}
	if a.places == 0 {
		if err := a.of.take(); err != nil {
			return nil, err
		}
	}
	if a.open == nil {
		a.open = make(map[mcp.ID]*ask)
	}
	one := &ask{before: a.last, put: make(chan struct{})}
	a.open[id], a.last = one, one.put
	a.places++
	return one, nil
}

// leave gives back the place that begin took.
func (a *serverRequests) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.places--; a.places == 0 {
		a.of.leave()
	}
}

// end frees the id.
func (a *serverRequests) end(id mcp.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

// bind says what ends the ask while it is put. One that was taken back already
// ends at once.
func (a *serverRequests) bind(one *ask, cancel context.CancelFunc) {
	if a.arm(one, cancel) {
		cancel()
	}
}

func (a *serverRequests) arm(one *ask, cancel context.CancelFunc) (withdrawn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one.cancel = cancel
	return one.withdrawn
}

// cancel ends the ask of the given id: its backend wants no answer any more. The
// id stays taken until the ask has ended.
func (a *serverRequests) cancel(id mcp.ID) {
	if cancel := a.withdraw(id); cancel != nil {
		cancel()
	}
}

func (a *serverRequests) withdraw(id mcp.ID) context.CancelFunc {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.open[id]
	if one == nil {
		return nil
	}
	one.withdrawn = true
	return one.cancel
}

// askThem puts a backend's request to the caller and answers it. The ask ends
// with ctx, with the session, or when the backend takes it back. atHome says that the
// caller is the client whose session it is, and whose tasks the backend may ask about.
func (s *legacySession) askThem(ctx context.Context, m *mcp.Message, caller mcp.Caller, atHome bool) {
	if isAboutTheirs(m) && !atHome {
		s.askUnrelated(m)
		return
	}
	s.takeAsk(m, atHome, func(life context.Context, one *ask, m *mcp.Message) (*mcp.Result, error) {
		return s.serveAsk(ctx, life, one, m, caller)
	})
}

// askUnrelated is askThem for a request that belongs to no call.
func (s *legacySession) askUnrelated(m *mcp.Message) {
	s.takeAsk(m, true, func(life context.Context, one *ask, m *mcp.Message) (*mcp.Result, error) {
		return s.serveAsk(life, life, one, m, s.addr.unrelated)
	})
}

// takeAsk has an ask served in a goroutine of its own, or refuses it. The session
// does not wait for that goroutine: who is asked may do anything, ending this
// client included.
func (s *legacySession) takeAsk(said *mcp.Message, atHome bool, serve func(life context.Context, one *ask, m *mcp.Message) (*mcp.Result, error)) {
	m, err := s.theirs.admit(said, atHome)
	if err != nil {
		s.refuse(said.ID, err)
		return
	}
	one, err := s.asks.begin(m.ID)
	if err != nil {
		s.refuse(m.ID, err)
		return
	}
	s.theirs.ask(m)
	end := make(chan session.Terminal, 1)
	// Ends with the answer, which the session's end lets arrive as it does a
	// cancellation: a server may hear of both in any order, and waits for the answer.
	_, open := s.notices.start(func(ctx context.Context) {
		defer s.asks.leave()
		select {
		case t := <-end:
			s.answer(ctx, m, t.Result, t.Err)
			s.settle(m, t.Result)
		case <-ctx.Done(): // who was asked has not come back
			s.settle(m, nil)
		}
	})
	if !open {
		s.settle(m, nil)
		s.asks.leave()
	}
	// Ends with what was asked, or soon after the session.
	begun := s.tasks.startUnowned(func(life context.Context) {
		res, err := serve(life, one, m)
		if err == nil && res != nil {
			res, err = s.theirs.read(m, res)
		}
		end <- session.Terminal{Result: res, Err: err}
	})
	if !begun {
		end <- session.Terminal{Err: errAskEnded()}
	}
}

// serveAsk is one ask, but for its answer. ctx is that of what it is taken to
// belong to, life is the session's. It frees the id.
func (s *legacySession) serveAsk(ctx, life context.Context, one *ask, m *mcp.Message, caller mcp.Caller) (*mcp.Result, error) {
	defer s.asks.end(m.ID)
	defer one.leavePlace()
	own, cancel := context.WithCancel(life)
	defer cancel()
	s.asks.bind(one, cancel)
	res, err := s.putAsk(ctx, own, one, m, caller)
	if err == nil || ctx.Err() == nil || own.Err() != nil {
		return res, err
	}
	switch {
	case s.isStrayAsk(m):
		return s.putAsk(own, own, one, m, s.addr.unrelated)
	case s.isOursForRoots(m):
		return mcp.NewResult([]byte(noRoots))
	default:
		return res, err
	}
}

// isStrayAsk reports whether an ask whose call has ended can have another
// addressee. A task of the client's outlives the call in which it was begun, and so do
// the requests about it (2025-11-25, basic/utilities/tasks); each of them may be asked
// twice. On a pipe the call was a guess, and a call that ends before its ask
// is answered was a wrong one. But the client may have been asked by then, so
// that only what can be asked twice is: the list of roots, which is what servers
// ask for outside every request.
func (s *legacySession) isStrayAsk(m *mcp.Message) bool {
	return s.addr.unrelated != nil && (isAboutTheirs(m) || s.addr.onlyCall && m.Method == methodRoots)
}

// putAsk puts an ask to a caller until either context ends.
func (s *legacySession) putAsk(ctx, own context.Context, one *ask, m *mcp.Message, caller mcp.Caller) (*mcp.Result, error) {
	ctx, cancel := both(ctx, own)
	defer cancel()
	if ctx.Err() == nil {
		res, err := s.askInTurn(ctx, one, caller, &mcp.Request{Method: m.Method, Params: m.Params, Client: s.self()})
		if err == nil || ctx.Err() == nil {
			return res, err
		}
	}
	return nil, errAskEnded()
}

// errAskEnded is the answer to what nobody can be asked any more.
func errAskEnded() error {
	return mcp.Errorf(mcp.CodeInternalError, "the request that this one belongs to has ended")
}

// askInTurn is askSafely, behind what the server has asked before: it was written in
// an order, in which a person is to read it.
func (s *legacySession) askInTurn(ctx context.Context, one *ask, caller mcp.Caller, req *mcp.Request) (*mcp.Result, error) {
	if one.before != nil {
		select {
		case <-one.before: // soon, because nobody is waited for to put an ask
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	wait, err := s.startSafely(ctx, caller, req)
	one.leavePlace()
	if err != nil {
		return nil, err
	}
	return wait()
}

// leavePlace lets the next ask be put.
func (a *ask) leavePlace() { a.placed.Do(func() { close(a.put) }) }

// askSafely is caller.Ask, on a goroutine on which nobody else would stop a panic.
func (s *setup) askSafely(ctx context.Context, caller mcp.Caller, req *mcp.Request) (res *mcp.Result, err error) {
	defer s.recoverAsk(ctx, &err)
	return caller.Ask(ctx, req)
}

// startSafely is [mcp.Start], likewise.
func (s *setup) startSafely(ctx context.Context, caller mcp.Caller, req *mcp.Request) (func() (*mcp.Result, error), error) {
	wait, err := s.tryStart(ctx, caller, req)
	if err != nil {
		return nil, err
	}
	return func() (res *mcp.Result, err error) {
		defer s.recoverAsk(ctx, &err)
		return wait()
	}, nil
}

func (s *setup) tryStart(ctx context.Context, caller mcp.Caller, req *mcp.Request) (wait func() (*mcp.Result, error), err error) {
	defer s.recoverAsk(ctx, &err)
	return mcp.Start(ctx, caller, req)
}

// recoverAsk makes a panic the error of the question.
func (s *setup) recoverAsk(ctx context.Context, err *error) {
	v := recover()
	if v == nil {
		return
	}
	s.log.LogAttrs(ctx, slog.LevelError, "panic while a client was asked",
		slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
	*err = mcp.Errorf(mcp.CodeInternalError, "the client could not be asked")
}

// answer sends the answer to an ask. There is always one, whatever became of the
// client: a server waits for it, and often with the call that the client waits for.
func (s *legacySession) answer(ctx context.Context, m *mcp.Message, res *mcp.Result, err error) {
	switch {
	case err != nil:
		s.deliver(ctx, mcp.AppendError(nil, m.ID, revision.AskError(s.version, m.Method, mcp.ToWire(err))))
	case res == nil:
		s.deliver(ctx, mcp.AppendError(nil, m.ID, mcp.Errorf(mcp.CodeInternalError, "no answer")))
	default:
		answer := mcp.AppendResult(nil, m.ID, revision.Answer(s.version, m.Method, &m.Params, res.Bytes()))
		s.deliver(ctx, mcp.AppendBeside(answer, res.Beside()))
	}
}

// maxDeliver is how often an answer is sent to a server that does not take it:
// over some five seconds where that is found out at once, in which a server that
// restarts is back, and has forgotten who it asked.
const maxDeliver = 6

// deliver sends a message that the server waits for, until it has arrived. A
// second one that arrives too answers nothing and does no harm: a response is not
// executed.
func (s *legacySession) deliver(ctx context.Context, msg []byte) {
	for n := range maxDeliver {
		if !mayArriveYet(s.send(ctx, msg)) || !pause(ctx, backoff(n+1)) {
			return
		}
	}
}

// mayArriveYet reports whether a message that failed in this way may be taken when
// it is sent again: the connection broke, or brought no answer in time, or the server
// has said that it is busy or did not wait for all of it.
func mayArriveYet(err error) bool {
	f, ok := unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	return ok && f.Code != mcp.CodeShuttingDown && (!isRefusal(f) || isRejected(err, busy))
}

// refuse answers an ask with an error, without waiting.
func (s *legacySession) refuse(id mcp.ID, err *mcp.Error) {
	s.replies.put(s, mcp.AppendError(nil, id, err))
}

// refuseAsk refuses what the server asks during a call of the session's own.
func (s *legacySession) refuseAsk(m *mcp.Message) {
	if s.hasNoRoots(m) {
		return
	}
	s.refuse(m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.60q: there is nobody to ask", m.Method))
}

// hasNoRoots answers a request for roots that belongs to no client, in a session of our
// own: many servers ask right after their handshake, and take an error for a failure.
func (s *legacySession) hasNoRoots(m *mcp.Message) bool {
	if !s.isOursForRoots(m) {
		return false
	}
	s.replies.put(s, mcp.AppendResult(nil, m.ID, []byte(noRoots)))
	return true
}

// noRoots is the result of roots/list where there is no client.
const noRoots = `{"roots":[]}`

// isOursForRoots reports whether a request asks for roots in a session of our own.
func (s *legacySession) isOursForRoots(m *mcp.Message) bool {
	return m.Method == methodRoots && !s.addr.private && !s.addr.shared
}
