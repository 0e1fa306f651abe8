// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// failingListens is a Handler that ends listens with the errors that the test sends.
type failingListens struct {
	mcp.Handler
	ends  chan error
	began chan struct{}
}

func (h *failingListens) Serve(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	if req.Method != "subscriptions/listen" {
		return h.Handler.Serve(ctx, req, c)
	}
	h.began <- struct{}{}
	ack, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":{"toolsListChanged":true}}`))
	if err != nil {
		return nil, err
	}
	if err := c.Notify(ctx, ack); err != nil {
		return nil, err
	}
	select {
	case err := <-h.ends:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// withFailingListens runs f with a standalone stream of a Handler of failingListens.
func withFailingListens(t *testing.T, f func(*site, *failingListens, *stream)) {
	t.Helper()
	h := &failingListens{Handler: tools(nil)}
	bubble(t, h, server.Config{}, func(s *site) {
		h.ends, h.began = make(chan error), make(chan struct{}, 64)
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		<-h.began
		f(s, h, st)
	})
}

// I33: a client with an open stream cannot see that no Handler listens for it. The listen
// is retried, and notifies the client of the gap.
func TestFailedListenIsRetried(t *testing.T) {
	withFailingListens(t, func(s *site, h *failingListens, st *stream) {
		for i := range 4 {
			began := time.Now()
			h.ends <- &mcp.Fault{Code: mcp.CodeBackendUnavailable, Message: "away"}
			<-h.began
			if d, most := time.Since(began), time.Second<<i; d < most/2 || d > most {
				t.Errorf("attempt %d after %v, want %v to %v", i, d, most/2, most)
			}
			equal(t, "the gap", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		}
	})
}

// A Handler without subscriptions refuses the listen, and one that returns a result has
// ended it deliberately: neither is asked again.
func TestRefusedListenIsNotRetried(t *testing.T) {
	for _, refusal := range []error{
		nil, mcp.Errorf(mcp.CodeMethodNotFound, "no"), &mcp.Fault{Code: mcp.CodeUnsupported, Message: "no"},
	} {
		withFailingListens(t, func(s *site, h *failingListens, _ *stream) {
			h.ends <- refusal
			s.advance(time.Hour)
			if n := len(h.began); n != 0 {
				t.Errorf("after %v: %d further attempts", refusal, n)
			}
		})
	}
}

// A backend that was replaced by one of another era refuses listens with errors of its own,
// until the gateway has detected the change. The client's stream stays open meanwhile.
func TestListenRetriedAfterTemporaryRefusal(t *testing.T) {
	for _, refusal := range []*mcp.Error{
		mcp.Errorf(mcp.CodeInvalidParams, "Invalid request parameters"),
		mcp.Errorf(mcp.CodeInvalidRequest, "invalid during session initialization"),
		mcp.Errorf(-32001, "Session not found"),
	} {
		withFailingListens(t, func(s *site, h *failingListens, st *stream) {
			h.ends <- refusal
			s.advance(time.Minute)
			if n := len(h.began); n != 1 {
				t.Fatalf("after %v: %d further attempts in a minute, want 1 that lasts", refusal, n)
			}
			equal(t, "the gap", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		})
	}
}
