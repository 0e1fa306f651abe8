// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// transientStatuses returns the statuses that do not mean that there is no stream. A server that
// has not noticed the end of a connection answers a second GET with 409.
func transientStatuses() []int {
	return []int{
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
}

// A listening stream is opened again after transient refusals, however long they last,
// and then everything counts as changed (I33).
func TestListeningStreamOutlastsTransientRefusals(t *testing.T) {
	for _, status := range transientStatuses() {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var refuses atomic.Bool
				cut := make(chan struct{})
				s := newStation()
				s.Capabilities = announces
				s.On["GET"] = func(x *faultyserver.Exchange) {
					switch {
					case refuses.Load():
						x.Status(status, "", "")
					case s.Count(http.MethodGet) == 1:
						x.Begin()
						<-cut
					default:
						s.serveListen(x)
					}
				}
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				ear := &recorder{}
				l := launch(t, dialHTTP(t, s, client.Config{}), in(scope, listen(t)), ear)
				synctest.Wait()
				refuses.Store(true)
				close(cut)
				time.Sleep(10 * time.Minute)
				told := len(ear.notifications())
				refuses.Store(false)
				if n := s.Count(http.MethodGet); n < 20 || n > 30 {
					t.Errorf("%d GETs in 10 minutes, want two each minute", n)
				}
				select {
				case <-s.open:
				case <-l.done:
					t.Fatalf("the listen ended: %v", l.err)
				case <-time.After(time.Minute): // longer than the longest delay
					t.Fatal("the stream was not opened again")
				}
				synctest.Wait()
				if n := len(ear.notifications()); n == told {
					t.Error("nothing was told of the gap when the stream was open again")
				}
				told = len(ear.notifications())
				s.listen <- listChanged
				synctest.Wait()
				if n := len(ear.notifications()); n != told+1 {
					t.Errorf("told %d times of one change", n-told)
				}
			})
		})
	}
}

// A call gets the result that its server still has, even if the server refuses to
// resume the stream for a while (I13, I15).
func TestResumptionOutlastsTransientRefusals(t *testing.T) {
	for _, status := range transientStatuses() {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var id mcp.ID
				refusals := 0
				s := newStation()
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					id = x.Msg.ID
					x.Begin()
					x.Raw("id: e1\nretry: 1000\ndata:\n\n")
					x.Abort()
				}
				s.On["GET"] = func(x *faultyserver.Exchange) {
					switch {
					case x.R.Header.Get("Last-Event-Id") == "":
						x.Status(http.StatusMethodNotAllowed, "", "")
					case refusals < 20:
						refusals++
						x.Status(status, "", "")
					default:
						x.Event("e2", response(id, `{"content":[]}`))
					}
				}
				res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
				wantResult(t, res, err, `{"content":[]}`)
				if n := s.Count("tools/call"); n != 1 {
					t.Errorf("%d calls, want 1", n)
				}
			})
		})
	}
}

// If a server refuses to resume a stream, it is asked less and less often, until the
// deadline of the call and no longer.
func TestResumptionEndsWithItsCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Event("e1", "") }
		gets := 0
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-Id") == "" {
				x.Status(http.StatusMethodNotAllowed, "", "")
				return
			}
			gets++
			x.Status(http.StatusConflict, "", "")
		}
		_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantFault(t, err, mcp.CodeDeadline, mcp.Unknown, "no answer in time")
		if gets < 110 || gets > 130 {
			t.Errorf("%d attempts in an hour, want two each minute", gets)
		}
		synctest.Wait()
		before := gets
		time.Sleep(time.Hour)
		if gets != before {
			t.Errorf("%d attempts after the end of the call", gets-before)
		}
	})
}

// A server sends a retry time once, and it holds until the next one (WHATWG HTML,
// "Server-sent events": it sets the reconnection time of the stream). Polling at that
// interval continues as long as the call lives (I15).
func TestRetryHoldsUntilTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const polls = 2000
		var id mcp.ID
		var at []time.Time
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			id = x.Msg.ID
			at = append(at, time.Now())
			x.Begin()
			x.Raw("id: p1\nretry: 1000\ndata:\n\n")
		}
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-Id") == "" {
				x.Status(http.StatusMethodNotAllowed, "", "")
				return
			}
			at = append(at, time.Now())
			x.Begin()
			switch len(at) - 1 {
			case polls / 2:
				x.Raw("retry: 1500\n\n")
			case polls:
				x.Event("p2", response(id, `{"content":[]}`))
			}
		}
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		for i := 1; i < len(at); i++ {
			want := time.Second
			if i > polls/2 {
				want = 1500 * time.Millisecond
			}
			if d := at[i].Sub(at[i-1]); d != want {
				t.Fatalf("poll %d came after %v, want %v", i, d, want)
			}
		}
	})
}

// The log contains the reason for giving up a stream.
func TestGivenUpStreamsAreLogged(t *testing.T) {
	t.Run("of a session", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.Capabilities = announces
			s.On["GET"] = func(x *faultyserver.Exchange) {
				if s.Count(http.MethodGet) > 1 {
					x.Status(http.StatusMethodNotAllowed, "", "")
					return
				}
				x.Begin()
			}
			log := &bytes.Buffer{}
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			c := dialHTTP(t, s, client.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
			l := launch(t, c, in(scope, listen(t)), &recorder{})
			<-l.done
			wantLogged(t, log, "level=WARN", "giving up on the backend's GET stream", "status=405")
		})
	})
	t.Run("of a call", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Event("e1", "") }
			log := &bytes.Buffer{}
			c := dialHTTP(t, s, client.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
			_, err := within(t, c, echo(t), &recorder{})
			wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "cannot be resumed")
			wantLogged(t, log, "level=WARN", "giving up on a call's response stream", "status=405", "method=tools/call")
		})
	})
}

// wantLogged requires a line that contains all of the words.
func wantLogged(t *testing.T, log *bytes.Buffer, words ...string) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		found := 0
		for _, w := range words {
			if strings.Contains(line, w) {
				found++
			}
		}
		if found == len(words) {
			return
		}
	}
	t.Errorf("no line with %q in the log:\n%s", words, log)
}
