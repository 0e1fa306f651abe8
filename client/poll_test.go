// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/zoo"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A server may have its client poll for as long as a call takes: each attempt that
// it has asked for and that brought nothing is no failure (2025-11-25,
// basic/transports, "Sending Messages to the Server").
func TestServerThatHasItsClientPoll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *zoo.Exchange) {
			x.Event("1", "")
			x.Raw("retry: 3000\n\n")
		}
		polls, last := 0, time.Now()
		var id mcp.ID
		call := s.On["tools/call"]
		s.On["tools/call"] = func(x *zoo.Exchange) { id = x.Msg.ID; call(x) }
		s.On["GET"] = func(x *zoo.Exchange) {
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

// A server may have its client poll for as long as a session takes as well: whoever
// listens hears of what changes after an hour of that (I33).
func TestListeningStreamThatIsPolledForLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const quiet = 3000
		s := newStation()
		s.Capabilities = announces
		polls := 0
		s.On["GET"] = func(x *zoo.Exchange) {
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

// A server that knows the last event of a listening stream no more may well have
// the stream: it is opened anew, and what was missed counts as changed.
func TestListeningStreamOfAnUnknownEvent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		var seen []string
		s.On["GET"] = func(x *zoo.Exchange) {
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
