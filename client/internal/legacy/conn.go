// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Dialer opens the connection of one legacy session.
type Dialer interface {
	// Dial returns a connection for one session, on behalf of the sender of a request. The
	// caller must close it.
	Dial(ctx context.Context, of *mcp.Request, n stdio.Purpose) (Conn, error)

	// HandshakeFailed is called when the handshake over the connection has failed, before it is
	// closed. It reports true if the connection has turned out to be modern, and must be
	// kept for that.
	HandshakeFailed(conn Conn) (keep bool)

	// SSEFallback returns an open HTTP+SSE connection to the same server, if the server
	// refused the handshake in a way that suggests that transport and has it. Otherwise
	// it returns nil.
	SSEFallback(ctx context.Context, conn Conn) Conn

	// IsModern is called when the handshake over the connection has succeeded. It reports
	// true if the server has turned out to speak both eras. Then the client uses the
	// modern era over a new connection, because the handshake binds this one. It reports
	// that once.
	IsModern(conn Conn) bool

	// SharesStream reports whether all messages of a session arrive on one stream.
	SharesStream() bool
}

// Conn is the connection of one legacy session: HTTP, HTTP with SSE, or a pipe of
// its own.
type Conn interface {
	// callTable returns the pending calls of the session.
	callTable() *session.Calls

	// attach binds the connection to its session. It is called before anything is sent.
	attach(s *clientSession)

	// roundTrip sends a call's request and returns the call's terminal. It returns an
	// error as soon as ctx ends.
	roundTrip(ctx context.Context, f call.Call, msg jsonrpc.Pieces) (*mcp.Result, error)

	// noteClient records the client of a request that the session sends, if output of
	// the server is attributed to clients.
	noteClient(req *mcp.Request)

	// post sends a message that has no answer, within the write deadline.
	post(ctx context.Context, msg []byte) error

	// setVersion is called when the protocol version is negotiated, before anything
	// else is sent. initialized is called after the handshake. It returns when
	// unsolicited messages of the server can be received, or when ctx ends.
	setVersion(v mcp.Version)
	initialized(ctx context.Context)

	// noListenStream returns a channel that is closed when the server has no stream for
	// messages outside of a call, or has lost it. It returns nil if that stream ends with
	// the session.
	noListenStream() <-chan struct{}

	// retire is called when the session serves no new request and will be closed soon.
	retire()

	// hurry makes close short: the client of the session is gone. It may be called
	// concurrently with close.
	hurry()

	// close ends the connection, and notifies the server if the transport has a message
	// for that.
	close(ctx context.Context)
}

// optional has the methods of Conn that do nothing on most transports.
type optional struct{}

func (optional) noteClient(*mcp.Request) {}

func (optional) setVersion(mcp.Version) {}

func (optional) initialized(context.Context) {}

func (optional) noListenStream() <-chan struct{} { return nil }

func (optional) retire() {}

func (optional) hurry() {}

// httpSession is what the connections of both HTTP transports have in common.
type httpSession struct {
	optional
	*httpconn.Endpoint // to which messages are POSTed
	calls              session.Calls
	group              call.Goroutines
	session            *clientSession
}

func newHTTPSession(e *httpconn.Endpoint) httpSession {
	return httpSession{Endpoint: e, calls: session.Calls{Numbers: call.NewNumbers()}}
}

func (w *httpSession) callTable() *session.Calls { return &w.calls }

func (w *httpSession) attach(s *clientSession) { w.session = s }

// goneError returns the error of a request that the server refused because it has
// forgotten the session. No new request uses the session from now on. endSession ends
// its other calls after this one has its error; their outcome is unknown.
func (w *httpSession) goneError(cause error) error {
	cause = call.Unwrap(cause)
	w.session.markEnded(w.Lost(cause, "it has ended the session"))
	w.session.pending.sessionForgotten()
	return &call.Rejected{Why: call.SessionGone, Err: w.Unavailable(cause, "it has ended the session")}
}

// endSessionIfGone ends the session if err is that of goneError. It is called after the
// call that received the refusal has its error, which may allow another attempt. The
// other calls are only lost.
func (w *httpSession) endSessionIfGone(err error) {
	if call.IsRejected(err, call.SessionGone) {
		w.endSession(err)
	}
}

// endSession ends the session with all its calls. It first waits for the answers of the
// calls that the server may be refusing for the same reason at this moment.
func (w *httpSession) endSession(cause error) {
	w.ForgetConnections()
	err := w.Lost(call.Unwrap(cause), "it has ended the session")
	w.session.markEnded(err)
	w.session.pending.sessionForgotten()
	lose := func() { w.session.end(err) }
	if !w.session.pending.runWhenSettled(&w.group, lose) {
		lose()
	}
}
