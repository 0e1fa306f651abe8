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

// flaky is a Handler whose listens end with the errors that the test sends.
type flaky struct {
	mcp.Handler
	ends  chan error
	began chan struct{}
}

func (h *flaky) Serve(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
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

// relisten runs f with a standalone stream whose inner listen is flaky.
func relisten(t *testing.T, f func(*site, *flaky, *stream)) {
	t.Helper()
	h := &flaky{Handler: tools(nil)}
	bubble(t, h, server.Config{}, func(s *site) {
		h.ends, h.began = make(chan error), make(chan struct{}, 64)
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		<-h.began
		f(s, h, st)
	})
}

// I33: a client whose stream stays open cannot see that no Handler listens for it. The
// listen is retried, and notifies the client of the gap.
func TestListenThatFailsIsBegunAgain(t *testing.T) {
	relisten(t, func(s *site, h *flaky, st *stream) {
		for i := range 4 {
			began := time.Now()
			h.ends <- &mcp.Fault{Code: mcp.CodeBackendUnavailable, Message: "away"}
			<-h.began
			if d, want := time.Since(began), time.Second<<i; d != want {
				t.Errorf("attempt %d after %v, want %v", i, d, want)
			}
			equal(t, "the gap", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		}
	})
}

// A Handler without subscriptions refuses the listen, and one that returns a result has
// ended it deliberately: neither is asked again.
func TestListenThatIsRefusedStaysSo(t *testing.T) {
	for _, refusal := range []error{
		nil, mcp.Errorf(mcp.CodeMethodNotFound, "no"), &mcp.Fault{Code: mcp.CodeUnsupported, Message: "no"},
	} {
		relisten(t, func(s *site, h *flaky, _ *stream) {
			h.ends <- refusal
			s.pass(time.Hour)
			if n := len(h.began); n != 0 {
				t.Errorf("after %v: %d further attempts", refusal, n)
			}
		})
	}
}

// A backend that was replaced by one of another era refuses listens with errors of its own,
// until the gateway has detected the change. The client's stream stays open meanwhile.
func TestListenOutlastsRefusalsThatPass(t *testing.T) {
	for _, refusal := range []*mcp.Error{
		mcp.Errorf(mcp.CodeInvalidParams, "Invalid request parameters"),
		mcp.Errorf(mcp.CodeInvalidRequest, "invalid during session initialization"),
		mcp.Errorf(-32001, "Session not found"),
	} {
		relisten(t, func(s *site, h *flaky, st *stream) {
			h.ends <- refusal
			s.pass(time.Minute)
			if n := len(h.began); n != 1 {
				t.Fatalf("after %v: %d further attempts in a minute, want 1 that lasts", refusal, n)
			}
			equal(t, "the gap", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		})
	}
}
