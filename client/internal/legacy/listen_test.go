// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// idleConn sends nothing. The test produces what the session receives.
type idleConn struct {
	optional
	calls    session.Calls
	noListen chan struct{}
}

func (w *idleConn) callTable() *session.Calls { return &w.calls }

func (w *idleConn) attach(*clientSession) {}

func (w *idleConn) roundTrip(ctx context.Context, f call.Call, _ jsonrpc.Pieces) (*mcp.Result, error) {
	return f.Run(ctx)
}

func (w *idleConn) post(context.Context, []byte) error { return nil }

func (w *idleConn) noListenStream() <-chan struct{} { return w.noListen }

func (w *idleConn) close(context.Context) {}

// methodRecorder records the methods that it receives.
type methodRecorder struct {
	mcp.Caller

	got []string
}

func (h *methodRecorder) Notify(_ context.Context, n *mcp.Notification) error {
	h.got = append(h.got, n.Method+string(n.Params.Bytes()))
	return nil
}

// A session that ends takes its stream with it. In whatever order a listen observes the
// two, it ends with the cause of the session, so that it continues in the next session.
// Before the first check nothing has been acknowledged. Only a live server without a
// stream ends the listen as such.
func TestListenEndsWithTheSession(t *testing.T) {
	errLost := errors.New("the session has ended")
	const told = `notifications/subscriptions/acknowledged{"notifications":{"toolsListChanged":true}}`
	const untold = `notifications/subscriptions/acknowledged{"notifications":{}}`
	end := func(s *clientSession, _ *idleConn) { s.markEnded(errLost) }
	deafen := func(_ *clientSession, w *idleConn) { close(w.noListen) }
	type event = func(*clientSession, *idleConn)
	for _, tt := range []struct {
		name           string
		before, during []event
		want           error
		acks           []string
	}{
		{"both before", []event{end, deafen}, nil, errLost, nil},
		{"the session before", []event{end}, nil, errLost, nil},
		{"both meanwhile", nil, []event{end, deafen}, errLost, []string{told}},
		{"only the session", nil, []event{end}, errLost, []string{told}},
		{"only the stream", nil, []event{deafen}, call.ErrNoListenStream, []string{told}},
		{"no stream from the beginning, then the end", []event{deafen}, []event{end}, errLost, []string{untold}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 { // select chooses at random
				synctest.Test(t, func(t *testing.T) {
					w := &idleConn{noListen: make(chan struct{})}
					s := newClientSession(call.NewSetup(call.Config{}), w, routing{}, nil)
					s.offers.Tools.ListChanged = true
					for _, happens := range tt.before {
						happens(s, w)
					}
					ear, ended := &methodRecorder{}, make(chan error, 1)
					// Ends with the event below; waited for there.
					go func() { ended <- s.listen(t.Context(), listen.Filter{Tools: true}, ear) }()
					synctest.Wait()
					for _, happens := range tt.during {
						happens(s, w)
					}
					if err := <-ended; !errors.Is(err, tt.want) {
						t.Errorf("ended with %v, want %v", err, tt.want)
					}
					if len(ear.got) != len(tt.acks) || len(tt.acks) > 0 && ear.got[0] != tt.acks[0] {
						t.Errorf("told %q, want %q", ear.got, tt.acks)
					}
				})
			}
		})
	}
}
