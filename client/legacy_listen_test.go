// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// stillWire carries nothing: what a session over it hears is the test's.
type stillWire struct {
	calls session.Calls
	deaf  chan struct{}
}

func (w *stillWire) table() *session.Calls { return &w.calls }
func (w *stillWire) attach(*legacySession) {}
func (w *stillWire) carry(ctx context.Context, f outboundCall, _ mcp.Pieces) (*mcp.Result, error) {
	return f.run(ctx)
}
func (w *stillWire) serves(*mcp.Request)                {}
func (w *stillWire) post(context.Context, []byte) error { return nil }
func (w *stillWire) ready(mcp.Version)                  {}
func (w *stillWire) opened(context.Context)             {}
func (w *stillWire) noListenStream() <-chan struct{}    { return w.deaf }
func (w *stillWire) leave()                             {}
func (w *stillWire) close(context.Context)              {}

// hears notes the methods that it is told of.
type hears struct {
	mcp.Caller

	got []string
}

func (h *hears) Notify(_ context.Context, n *mcp.Notification) error {
	h.got = append(h.got, n.Method+string(n.Params.Bytes()))
	return nil
}

// A session that ends takes its stream with it. Whichever of the two a listen
// sees first, it ends with the session's end, so that it goes on in the next one;
// and before the first look nothing has been promised. Only a server that is well
// and has no stream is not listened to any more.
func TestListenSeesTheEndOfTheSessionInAnyOrder(t *testing.T) {
	errLost := errors.New("the session has ended")
	const told = `notifications/subscriptions/acknowledged{"notifications":{"toolsListChanged":true}}`
	const untold = `notifications/subscriptions/acknowledged{"notifications":{}}`
	end := func(s *legacySession, _ *stillWire) { s.markGone(errLost) }
	deafen := func(_ *legacySession, w *stillWire) { close(w.deaf) }
	type event = func(*legacySession, *stillWire)
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
		{"only the stream", nil, []event{deafen}, errNoListenStream, []string{told}},
		{"no stream from the beginning, then the end", []event{deafen}, []event{end}, errLost, []string{untold}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 { // a select takes any of those that are ready
				synctest.Test(t, func(t *testing.T) {
					w := &stillWire{deaf: make(chan struct{})}
					s := newLegacySession(newSetup(Config{}), w, routing{})
					s.offers.Tools.ListChanged = true
					for _, happens := range tt.before {
						happens(s, w)
					}
					ear, ended := &hears{}, make(chan error, 1)
					// Ends with what happens below; waited for there.
					go func() { ended <- s.listen(t.Context(), filter{Tools: true}, ear) }()
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
