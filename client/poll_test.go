// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A server may make its client poll for as long as a call takes: an attempt that it has
// asked for and that brought nothing is no failure (2025-11-25, basic/transports,
// "Sending Messages to the Server").
func TestServerThatHasItsClientPoll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("1", "")
			x.Raw("retry: 3000\n\n")
		}
		polls, last := 0, time.Now()
		var id mcp.ID
		call := s.On["tools/call"]
		s.On["tools/call"] = func(x *faultyserver.Exchange) { id = x.Msg.ID; call(x) }
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-Id") != "1" {
				x.Status(http.StatusMethodNotAllowed, "", "")
				return
			}
			if d := time.Since(last); d < 3*time.Second {
				t.Errorf("back after %v, want what the server has said", d)
			}
			last = time.Now()
			if polls++; polls < 12 {
				x.Begin()
				x.Raw("retry: 3000\n\n")
				return
			}
			x.Event("2", `{"jsonrpc":"2.0","id":`+id.String()+`,"result":{"content":[]}}`)
		}
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		if err != nil || string(res.Bytes()) != `{"content":[]}` || polls != 12 {
			t.Errorf("%v, %v after %d polls; want the result", res, err, polls)
		}
	})
}

// A server may also make its client poll for as long as a session takes: listens still
// receive changes after an hour of that (I33).
func TestListeningStreamThatIsPolledForLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const quiet = 3000
		s := newStation()
		s.Capabilities = announces
		polls := 0
		s.On["GET"] = func(x *faultyserver.Exchange) {
			x.Begin()
			x.Event("7", "")
			if polls++; polls == quiet {
				x.Event("", listChanged)
			}
			x.Raw("retry: 1200\n\n")
		}
		ear := &recorder{}
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		l := launch(t, dialHTTP(t, s, client.Config{}), in(scope, listen(t)), ear)
		synctest.Wait()
		time.Sleep((quiet - 10) * 1200 * time.Millisecond)
		before := len(ear.notifications())
		time.Sleep(20 * 1200 * time.Millisecond)
		synctest.Wait()
		if polls < quiet || len(ear.notifications()) != before+1 {
			t.Errorf("%d polls, %d notices and then %d; want one more", polls, before, len(ear.notifications()))
		}
		l.cancel()
		<-l.done
	})
}

// quickRetries is a stream that ends at once each time, with a new id and a request to
// reconnect at once, though it brings nothing. It records when it was requested.
type quickRetries struct {
	gets    []time.Time
	replies map[int]string // what it sends the n-th time
}

func (h *quickRetries) serve(x *faultyserver.Exchange) {
	h.gets = append(h.gets, time.Now())
	n := strconv.Itoa(len(h.gets))
	x.Begin()
	x.Raw("retry: 0\n\n")
	x.Event(n, h.replies[len(h.gets)])
}

// wantBackoff reports attempts that are more frequent than those after a failure.
func (h *quickRetries) wantBackoff(t *testing.T, from, to int) {
	t.Helper()
	if len(h.gets) < to {
		t.Fatalf("%d attempts, want at least %d", len(h.gets), to)
	}
	least := 100 * time.Millisecond
	for i := from + 1; i < to; i++ {
		if d := h.gets[i].Sub(h.gets[i-1]); d < least || d > 31*time.Second {
			t.Errorf("attempt %d after %v, want %v or more, and at most half a minute", i+1, d, least)
		}
		least = min(2*least, 30*time.Second)
	}
}

// A server that sends a new id but no message is polled less and less often, until it
// sends one. It is not given up, because that may be intended (2025-11-25,
// basic/transports, "Sending Messages to the Server").
//
// R7- 2025-11-25 basic/transports: "The client MUST respect the retry field, waiting
// the given number of milliseconds before attempting to reconnect."
func TestPollsThatBringNothingSlowDown(t *testing.T) {
	const word = 40 // the attempt that brings a message
	logged := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`
	t.Run("of a call", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			h := &quickRetries{replies: map[int]string{word: logged}}
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				x.Event("0", "")
				h.replies[2*word] = response(x.Msg.ID, `{"content":[]}`)
			}
			s.On["GET"] = func(x *faultyserver.Exchange) {
				if x.R.Header.Get("Last-Event-Id") == "" {
					x.Status(http.StatusMethodNotAllowed, "", "")
					return
				}
				h.serve(x)
			}
			res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			h.wantBackoff(t, 0, word)
			h.wantBackoff(t, word-1, 2*word)
			if d := h.gets[word].Sub(h.gets[word-1]); d > time.Second {
				t.Errorf("asked again %v after a message, want at once", d)
			}
		})
	})
	t.Run("of a session", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.Capabilities = announces
			h := &quickRetries{replies: map[int]string{word: listChanged, 2 * word: listChanged}}
			s.On["GET"] = h.serve
			ear := &recorder{}
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			l := launch(t, dialHTTP(t, s, client.Config{}), in(scope, listen(t)), ear)
			time.Sleep(time.Hour)
			l.cancel()
			<-l.done
			synctest.Wait()
			h.wantBackoff(t, 0, word)
			h.wantBackoff(t, word-1, 2*word)
			if d := h.gets[word].Sub(h.gets[word-1]); d > time.Second {
				t.Errorf("asked again %v after a message, want at once", d)
			}
			if got := ear.notifications(); !slices.Contains(got, "tools/list_changed") {
				t.Errorf("told %q, want of the change", got)
			}
		})
	})
}

// An unavailable server is also tried less and less often, whatever retry time it sent
// before (I33).
func TestUnavailableServerIsTriedLessOften(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		n := 0
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if n++; n > 1 {
				x.Status(http.StatusServiceUnavailable, "", "")
				return
			}
			x.Begin()
			x.Raw("retry: 0\n\n")
		}
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, dialHTTP(t, s, client.Config{}), in(scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n < 100 || n > 140 {
			t.Errorf("asked %d times in an hour, want twice a minute", n)
		}
	})
}

// A server that holds each poll for a while decides itself how often it is polled.
func TestHeldPollsAreNotSlowedDown(t *testing.T) {
	tests := map[string]struct {
		held          time.Duration
		before, after func(x *faultyserver.Exchange, n int)
	}{
		"a new id each time": {
			10 * time.Second,
			func(x *faultyserver.Exchange, n int) { x.Event(strconv.Itoa(n), "") },
			func(*faultyserver.Exchange, int) {},
		},
		"asked to come back each time": {
			10 * time.Second,
			func(x *faultyserver.Exchange, _ int) { x.Event("same", "") },
			func(x *faultyserver.Exchange, _ int) { x.Raw("retry: 500\n\n") },
		},
		"cut when it was idle for long": {
			25 * time.Second,
			func(x *faultyserver.Exchange, _ int) { x.Begin() },
			func(*faultyserver.Exchange, int) {},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				n := 0
				s.On["GET"] = func(x *faultyserver.Exchange) {
					n++
					tt.before(x, n)
					select {
					case <-time.After(tt.held):
						tt.after(x, n)
					case <-x.R.Context().Done():
					}
				}
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				if _, err := within(t, dialHTTP(t, s, client.Config{}), in(scope, echo(t)), &recorder{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if least := int(time.Hour / (tt.held + 1100*time.Millisecond)); n < least {
					t.Errorf("polled %d times in an hour, want %d or more", n, least)
				}
			})
		})
	}
}

// Failures in between are counted from zero after each id: the stream continues.
func TestFailuresBetweenPollsAreNotAddedUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		ids := make(chan mcp.ID, 1)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("0", "")
			ids <- x.Msg.ID
		}
		n := 0
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-Id") == "" {
				x.Status(http.StatusMethodNotAllowed, "", "")
				return
			}
			switch n++; {
			case n == 40:
				x.Event("", response(<-ids, `{"content":[]}`))
			case n%4 == 0:
				x.Event(strconv.Itoa(n), "")
			default:
				x.Status(http.StatusBadGateway, "", "")
			}
		}
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
	})
}

// A server that no longer knows the last event of a listening stream may still have the
// stream: it is opened from the start, and everything is reported as changed.
func TestListeningStreamOfAnUnknownEvent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		var seen []string
		s.On["GET"] = func(x *faultyserver.Exchange) {
			last := x.R.Header.Get("Last-Event-Id")
			seen = append(seen, last)
			switch {
			case last != "":
				x.Status(http.StatusBadRequest, "", "")
			case len(seen) == 1:
				x.Event("7", "")
			default:
				x.Event("9", "")
				x.Hold()
			}
		}
		ear := &recorder{}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		l := launch(t, c, in(scope, listen(t)), ear)
		time.Sleep(time.Minute)
		synctest.Wait()
		l.cancel()
		<-l.done
		wantStrings(t, "Last-Event-ID", seen, []string{"", "7", ""})
		if !slices.Contains(ear.notifications(), "tools/list_changed") {
			t.Errorf("told %q, want that the lists may have changed", ear.notifications())
		}
	})
}
