// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

const announces = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{}}`

func listen(t *testing.T) *mcp.Request {
	return request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourcesListChanged":true}}`)
}

const listChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// A legacy server's list_changed on its listening stream reaches the listens of the
// scope, which were acknowledged for the lists that the server declares.
func TestLegacyListenOverHTTP(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear := &recorder{}
		l := launch(t, c, in(scope, listen(t)), ear)
		<-s.open
		synctest.Wait()
		wantStrings(t, "first", ear.notifications(), []string{`subscriptions/acknowledged {"notifications":{"toolsListChanged":true}}`})
		s.listen <- listChanged
		s.listen <- `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`
		synctest.Wait()
		wantStrings(t, "then", ear.notifications()[1:], []string{"tools/list_changed"})
		if n := s.Count("initialize"); n != 1 {
			t.Errorf("%d sessions, want 1", n)
		}
		l.cancel()
		<-l.done
	})
}

// Many changes that were not read yet are one, and one follows the last.
func TestI33ChangesAreALevel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		c := dialHTTP(t, s, client.Config{})
		ear := &recorder{block: make(chan struct{})}
		launch(t, c, listen(t), ear)
		ear.block <- struct{}{} // the acknowledgement
		<-s.open
		for range 1000 {
			s.listen <- listChanged
		}
		synctest.Wait()
		close(ear.block)
		synctest.Wait()
		got := ear.notifications()
		if len(got) < 2 || len(got) > 4 {
			t.Errorf("%d notifications for 1000 changes: %q", len(got), got)
		}
	})
}

// A listening stream that ends at once, again and again, is given up. If the server
// asks to open it again, or refuses it temporarily, it is tried twice a minute.
func TestM060ReconnectsAreBoundedByLackOfProgress(t *testing.T) {
	const few, slow = 8, 24*60*2 + 10
	tests := map[string]struct {
		get  func(x *faultyserver.Exchange)
		most int
	}{
		"always 200":        {func(x *faultyserver.Exchange) { x.Begin() }, few},
		"an unchanging id":  {func(x *faultyserver.Exchange) { x.Begin(); x.Raw("id: same\ndata:\n\n") }, few},
		"always 403":        {func(x *faultyserver.Exchange) { x.Status(403, "text/plain", "") }, few},
		"broken":            {func(x *faultyserver.Exchange) { x.Begin(); x.Abort() }, few},
		"always 500":        {func(x *faultyserver.Exchange) { x.Status(500, "text/plain", "") }, slow},
		"retry 0, then end": {func(x *faultyserver.Exchange) { x.Begin(); x.Raw("retry: 0\n\n") }, slow},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				s.On["GET"] = tt.get
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(24 * time.Hour)
				if n := s.Count(http.MethodGet); n < 3 || n > tt.most {
					t.Errorf("%d attempts in a day", n)
				}
			})
		})
	}
}

// The session works, whatever a GET is answered with (M061, M077, M083).
func TestM061M077ListeningStreamIsOptional(t *testing.T) {
	html := func(x *faultyserver.Exchange) { x.Status(200, "text/html", "<html>") }
	tests := []struct {
		name     string
		get      func(x *faultyserver.Exchange)
		attempts int
	}{
		{"404", func(x *faultyserver.Exchange) { x.Status(404, "", "") }, 1},
		{"405", func(x *faultyserver.Exchange) { x.Status(405, "", "") }, 1},
		{"400", func(x *faultyserver.Exchange) { x.Status(400, "", "") }, 1},
		{"HTML (M061)", html, 1},
		{"JSON", func(x *faultyserver.Exchange) { x.Status(200, "application/json", "{}") }, 1},
		{"never", func(x *faultyserver.Exchange) { x.Hold() }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				s.On["GET"] = tt.get
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				began := time.Now()
				for range 3 {
					if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("calls took %v", took)
				}
				time.Sleep(time.Hour)
				if n := s.Count(http.MethodGet); n != tt.attempts {
					t.Errorf("%d attempts, want %d", n, tt.attempts)
				}
			})
		})
	}
}

// The listening stream is opened after the handshake, with the session's id, and no
// request waits for it (M078, M084).
func TestM084ListeningStreamComesAfterTheHandshake(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) { x.Hold() } // sends no headers
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var order []string
		for _, r := range s.Seen() {
			if r.Verb == http.MethodGet {
				order = append(order, r.Verb)
				if id, v := r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version"); id != faultyserver.SessionID || v != "2025-11-25" {
					t.Errorf("GET with session %q and version %q", id, v)
				}
				continue
			}
			order = append(order, r.Method)
		}
		get := slices.Index(order, "GET")
		if init := slices.Index(order, "notifications/initialized"); get < init || init < 0 {
			t.Errorf("order %q", order)
		}
	})
}

// The server's reconnection time is kept, each stream has its own position, and a
// stream without ids is opened from the start (M069, M073, requirement R7).
func TestM069PositionsBelongToTheirStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		var gets []time.Time
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if id := x.R.Header.Get("Last-Event-ID"); id != "" {
				t.Errorf("GET with Last-Event-ID %q, which belongs to the call's stream", id)
			}
			gets = append(gets, time.Now())
			x.Begin()
			if len(gets) == 1 {
				x.Raw("retry: 60000\n\n")
				return
			}
			s.serveListen(x)
		}
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Begin()
			x.Raw("id: 9_1\ndata:\n\n")
			x.Response(`{"content":[]}`)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear := &recorder{}
		launch(t, c, in(scope, listen(t)), ear)
		launch(t, c, in(scope, echo(t)), &recorder{}).wantResult(t, `{"content":[]}`)
		<-s.open
		synctest.Wait()
		if d := gets[1].Sub(gets[0]); d < time.Minute {
			t.Errorf("reconnected after %v, the server said 60s", d)
		}
		// A change may have been missed in the gap.
		if got := ear.notifications(); !slices.Contains(got, "tools/list_changed") {
			t.Errorf("no invalidation after the gap: %q", got)
		}
	})
}

// If the resumption of a call's stream is refused permanently, the call ends. A stream
// that brings nothing is given up (M063, M071, M083).
func TestM063ResumptionIsBounded(t *testing.T) {
	tests := []struct {
		name   string
		resume func(x *faultyserver.Exchange)
		text   string
		most   int
	}{
		{"400", func(x *faultyserver.Exchange) { x.Status(400, "", "") }, "cannot be resumed", 1},
		{"405", func(x *faultyserver.Exchange) { x.Status(405, "", "") }, "cannot be resumed", 1},
		{"HTML", func(x *faultyserver.Exchange) { x.Status(200, "text/html", "") }, "cannot be resumed", 1},
		{"200 and nothing", func(x *faultyserver.Exchange) { x.Begin() }, "brought nothing", 5},
		{"403", func(x *faultyserver.Exchange) { x.Status(403, "", "") }, "brought nothing", 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				resumed := 0
				s := newStation()
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					x.Begin()
					x.Raw("id: e1\ndata:\n\n")
				}
				s.On["GET"] = func(x *faultyserver.Exchange) {
					if x.R.Header.Get("Last-Event-ID") == "" {
						x.Hold()
						return
					}
					resumed++
					tt.resume(x)
				}
				_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
				wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, tt.text)
				if resumed != tt.most || s.Count("tools/call") != 1 {
					t.Errorf("%d resumptions and %d calls, want %d and 1", resumed, s.Count("tools/call"), tt.most)
				}
			})
		})
	}
}

// An event id that no header can carry does not count. The stream cannot be resumed,
// nor from an older id, and the server is not reported as unreachable.
func TestEventIDThatCannotBeSent(t *testing.T) {
	for _, id := range []string{"\x01", "e\x7f", "a\x1b[31m"} {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				x.Begin()
				x.Raw("id: e1\ndata:\n\nid: " + id + "\ndata:\n\n")
			}
			_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
			wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "ended without a response")
			for _, r := range s.Seen() {
				if r.Verb == http.MethodGet && r.Header.Get("Last-Event-Id") != "" {
					t.Errorf("%q: resumed after %q", id, r.Header.Get("Last-Event-Id"))
				}
			}
		})
	}
}

// A server that closes its stream early and makes the client poll is polled for as long
// as it brings something new, at its own reconnection time.
//
// R7+ 2025-11-25 basic/transports: "The client MUST respect the retry field, waiting
// the given number of milliseconds before attempting to reconnect."
func TestR7PollingServer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		ids := make(chan mcp.ID, 1)
		polls := 0
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			ids <- x.Msg.ID
			x.Begin()
			x.Raw("retry: 30000\nid: 0\ndata:\n\n")
		}
		s.On["GET"] = func(x *faultyserver.Exchange) {
			id := x.R.Header.Get("Last-Event-ID")
			if id == "" {
				x.Hold()
				return
			}
			polls++
			if polls < 20 {
				x.Begin()
				x.Raw("id: " + id + "x\ndata:\n\n")
				return
			}
			x.Event("", response(<-ids, `{"content":[]}`))
		}
		began := time.Now()
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if took := time.Since(began); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("20 polls took %v, want 30s each", took)
		}
	})
}

// A modern listen is reopened when it breaks, and everything listened for is then
// reported as changed. It ends with its context.
func TestModernListenIsReopened(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){}}
		n := 0
		ended := make(chan struct{})
		s.On["subscriptions/listen"] = func(x *faultyserver.Exchange) {
			n++
			id := x.Msg.ID.String()
			meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+meta+`,"notifications":{"toolsListChanged":true}}}`)
			switch n {
			case 1:
				x.Event("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+meta+`}}`)
			case 2:
				x.Response(`{"resultType":"complete",` + meta + `}`) // an orderly end
			default:
				x.Hold()
				close(ended)
			}
		}
		ear := &recorder{}
		l := launch(t, dialHTTP(t, s, client.Config{}), listen(t), ear)
		time.Sleep(time.Minute)
		l.cancel()
		<-l.done
		<-ended
		wantFault(t, l.err, mcp.CodeBackendFailed, mcp.Completed, "cancelled")
		wantStrings(t, "notifications", ear.notifications(), []string{
			`subscriptions/acknowledged {"_meta":{},"notifications":{"toolsListChanged":true}}`,
			`tools/list_changed {"_meta":{}}`,
			"tools/list_changed", "resources/list_changed",
			"tools/list_changed", "resources/list_changed",
		})
		if strings.Contains(s.Seen()[1].Body, "toolsListChanged") == false {
			t.Errorf("the filter was not sent on: %s", s.Seen()[1].Body)
		}
	})
}

// If a server stays unavailable the listen ends, with an error that gives the reason.
func TestListenEndsIfTheServerStaysUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		drop := make(chan struct{})
		var away atomic.Bool
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(x *faultyserver.Exchange){
			"subscriptions/listen": func(x *faultyserver.Exchange) {
				if away.Load() {
					x.Status(http.StatusBadGateway, "text/html", "<html>")
					return
				}
				x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":`+x.Msg.ID.String()+`}}}`)
				<-drop
				x.Abort()
			},
		}}
		c := dialHTTP(t, s, client.Config{})
		l := launch(t, c, listen(t), &recorder{})
		synctest.Wait()
		away.Store(true)
		began := time.Now()
		close(drop)
		<-l.done
		wantFault(t, l.err, mcp.CodeBackendFailed, mcp.Unknown, "502")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A listen that the server refuses ends with its error.
func TestListenThatIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true}
		_, err := within(t, dialHTTP(t, s, client.Config{}), listen(t), &recorder{})
		wantError(t, err, mcp.CodeMethodNotFound)
	})
}

// Listens on a shared pipe share one stream, and each receives only what it asked for.
// A server that was started again is asked for all of them again (requirement U8).
//
// U8+ 2026-07-28 basic/patterns/subscriptions: "if the connection is terminated and
// then re-established, the client MUST re-send `subscriptions/listen` to re-establish
// its subscriptions"
func TestU8ModernListensOverLines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		lines := make(chan *faultyserver.Line, 10)
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){}}
		s.On["subscriptions/listen"] = func(x *faultyserver.Line) {
			x.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + x.Msg.ID.String() + `},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:1"]}}}`)
			lines <- x
		}
		c, opened := dialLines(t, s, client.Config{})
		one, two := &recorder{}, &recorder{}
		launch(t, c, listen(t), one)
		<-lines
		launch(t, c, watching(t, "x:1"), two)
		second := <-lines
		synctest.Wait()
		before := [2]int{len(one.notifications()), len(two.notifications())}
		second.Send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + second.Msg.ID.String() + `}}}`)
		synctest.Wait()
		if len(one.notifications()) != before[0]+1 || len(two.notifications()) != before[1] {
			t.Errorf("the change reached the wrong listen: %q, %q", one.notifications(), two.notifications())
		}
		second.Close()
		<-lines
		time.Sleep(10 * time.Second)
		if got := one.notifications()[before[0]+1:]; !slices.Contains(got, "tools/list_changed") || !slices.Contains(got, "resources/list_changed") {
			t.Errorf("no invalidation after the restart: %q", got)
		}
		if got := two.notifications()[before[1]:]; !slices.Contains(got, told("x:1")) {
			t.Errorf("no invalidation after the restart: %q", got)
		}
		if opened() != 2 {
			t.Errorf("opened %d pipes, want 2", opened())
		}
	})
}

// A session without a listening stream acknowledges nothing to a listen, whatever the
// server has declared. If the stream is no longer available the listen ends.
func TestNoStreamOfChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		s.On["GET"] = func(x *faultyserver.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear := &recorder{}
		l := launch(t, c, in(scope, listen(t)), ear)
		time.Sleep(time.Hour)
		wantStrings(t, "heard", ear.notifications(), []string{`subscriptions/acknowledged {"notifications":{}}`})
		if isDone(l) {
			t.Errorf("the listen has ended: %v", l.err)
		}
	})
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		s.On["GET"] = func(x *faultyserver.Exchange) { x.Begin() } // ends at once, each time
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		l := launch(t, c, in(scope, listen(t)), &recorder{})
		<-l.done
		wantFault(t, l.err, mcp.CodeUnsupported, mcp.Completed, "no longer reports")
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
	})
}

func isDone(r *running) bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
