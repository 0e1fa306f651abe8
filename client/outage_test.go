// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// switchedTransport is a transport to a server that may be off.
type switchedTransport struct {
	http.RoundTripper

	off  atomic.Bool
	busy bool // a proxy responds in its place

	refusal error // the error if it is off and not busy; nil is one without a cause
}

func (s *switchedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.off.Load() && s.busy {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	if s.off.Load() && s.refusal != nil {
		return nil, s.refusal
	}
	if s.off.Load() {
		return nil, errors.New("no connection")
	}
	return s.RoundTripper.RoundTrip(r)
}

// A listen does not wait for a stream that takes long to open. Changes until then were
// not notified about, so everything is reported as changed (I33).
func TestListenBeforeItsStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		tries := 0
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if tries++; tries == 1 {
				time.Sleep(5 * time.Second)
				x.Abort()
				return
			}
			s.serveListen(x)
		}
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear := &recorder{}
		launch(t, dialHTTP(t, s, client.Config{}), in(scope, listen(t)), ear)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := ear.notifications(); len(got) != 1 {
			t.Errorf("heard %q before the stream was open, want an acknowledgement", got)
		}
		<-s.open
		synctest.Wait()
		if got := ear.notifications(); len(got) < 2 {
			t.Errorf("heard %q, want the gap to be told", got)
		}
	})
}

// A server that is unavailable for long has not indicated that it has no listening
// stream. Listens resume when it is available again, whether it still knows the session
// or not (I3, I33).
func TestListenOutlastsALongOutage(t *testing.T) {
	tests := map[string]struct {
		busy     bool
		forgets  bool
		outage   time.Duration
		sessions int
	}{
		"remembered": {false, false, 10 * time.Minute, 1},
		"forgotten":  {false, true, 10 * time.Minute, 2},
		"short":      {false, true, time.Second, 2},
		"ending":     {true, true, 10 * time.Minute, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var way *switchedTransport
				cut := make(chan struct{})
				s := newStation()
				s.Capabilities = announces
				first := true
				s.On["GET"] = func(x *faultyserver.Exchange) {
					switch {
					case first:
						first = false
						x.Begin()
						<-cut
					case tt.forgets && x.R.Header.Get("Mcp-Session-Id") == faultyserver.SessionID:
						x.Status(http.StatusNotFound, "", "")
					default:
						s.serveListen(x)
					}
				}
				c := dialHTTPThrough(t, s, client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
					way = &switchedTransport{RoundTripper: rt, busy: tt.busy}
					return way
				})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				ear := &recorder{}
				launch(t, c, in(scope, listen(t)), ear)
				synctest.Wait()
				way.off.Store(true)
				close(cut)
				time.Sleep(tt.outage)
				way.off.Store(false)
				select {
				case <-s.open:
				case <-time.After(time.Minute): // longer than the longest wait
					t.Fatal("the stream was not opened again")
				}
				synctest.Wait()
				before := len(ear.notifications())
				if before < 2 {
					t.Errorf("heard %q, want the gap to be told", ear.notifications())
				}
				s.listen <- listChanged
				synctest.Wait()
				if got := ear.notifications(); len(got) != before+1 {
					t.Errorf("heard %q after the outage, want one more change", got[before:])
				}
				if n := s.Count("initialize"); n != tt.sessions {
					t.Errorf("%d sessions, want %d", n, tt.sessions)
				}
			})
		})
	}
}

// A server that restarts right after the handshake refuses the session's first stream
// in the same way as a server without streams. It is asked which of the two applies: a
// forgotten session would never receive a notification (I33).
func TestListenInASessionThatIsForgottenAtOnce(t *testing.T) {
	tests := map[string]struct {
		status   int
		forgets  bool
		sessions int
		promised string
	}{
		"404, forgotten": {http.StatusNotFound, true, 2, `{"toolsListChanged":true}`},
		"400, forgotten": {http.StatusBadRequest, true, 2, `{"toolsListChanged":true}`},
		"404, no stream": {http.StatusNotFound, false, 1, `{}`},
		"400, no stream": {http.StatusBadRequest, false, 1, `{}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				s.Capabilities = `{"tools":{"listChanged":true}}`
				isFirst := func(x *faultyserver.Exchange) bool { return x.R.Header.Get("Mcp-Session-Id") == faultyserver.SessionID }
				s.On["GET"] = func(x *faultyserver.Exchange) {
					if isFirst(x) {
						x.Status(tt.status, "", "")
						return
					}
					s.serveListen(x)
				}
				s.On["ping"] = func(x *faultyserver.Exchange) {
					if tt.forgets && isFirst(x) {
						x.Status(http.StatusNotFound, "", "")
						return
					}
					x.Result("{}")
				}
				ear := &recorder{}
				launch(t, dialHTTP(t, s, client.Config{}), listen(t), ear)
				time.Sleep(10 * time.Second)
				wantStrings(t, "heard", ear.notifications(), []string{`subscriptions/acknowledged {"notifications":` + tt.promised + `}`})
				if n := s.Count("initialize"); n != tt.sessions {
					t.Errorf("%d sessions, want %d", n, tt.sessions)
				}
			})
		})
	}
}

// If the server refuses the connection to resume a stream it has gone, and the call
// fails at once. If it cannot be reached, one more attempt is made (DELIVERY 5.2).
func TestResumptionOfAServerThatHasGone(t *testing.T) {
	tests := map[string]struct {
		refusal error
		after   time.Duration // the wait before the first attempt is a second
	}{
		"refused":     {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, time.Second},
		"unreachable": {&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, 3 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var way *switchedTransport
				s := newStation()
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					x.Event("1", theLog)
					way.off.Store(true)
					x.Abort()
				}
				c := dialHTTPThrough(t, s, client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
					way = &switchedTransport{RoundTripper: rt, refusal: tt.refusal}
					return way
				})
				began := time.Now()
				_, err := within(t, c, echo(t), &recorder{})
				wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "it cannot be reached")
				if d := time.Since(began); d != tt.after {
					t.Errorf("the call ended after %v, want %v", d, tt.after)
				}
			})
		})
	}
}
