// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// notifyingTool is a tool that sends n messages, a second apart, and then its result. All
// of them name their call.
func notifyingTool(n int) mcp.HandlerFunc {
	return func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		call := string(req.Params.Raw(mcp.FieldArguments))
		for i := range n {
			sleep(time.Second)
			message, err := mcp.NewNotification("notifications/x", fmt.Appendf(nil, `{"of":%s,"n":%d}`, call, i))
			if err != nil {
				return nil, err
			}
			if err := c.Notify(ctx, message); err != nil {
				return nil, err
			}
		}
		return result(`{"of":` + call + `}`)
	}
}

// callMessages returns the messages that a call of such a tool sends, in order.
func callMessages(id, call, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x","params":{"of":%d,"n":%d}}`, call, i))
	}
	return append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"of":%d}}`, id, call))
}

func notifyingCall(id, call int) string {
	return raw(fmt.Sprint(id), "tools/call", fmt.Sprintf(`{"name":"tell","arguments":%d}`, call))
}

// eventsOf parses the text of a stream into messages and the ids of their events. An
// incomplete event is left out.
func eventsOf(t *testing.T, text string) (ids, messages []string) {
	t.Helper()
	er := frame.NewEventReader(strings.NewReader(text), 1<<20)
	for {
		e, err := er.Next()
		if err != nil {
			return ids, messages
		}
		if e.HasID {
			ids = append(ids, e.ID)
		}
		if len(e.Data) > 0 {
			messages = append(messages, string(e.Data))
		}
	}
}

// Several calls at once, the standalone stream, and streams that are lost and resumed: each
// message is on the stream of its call, on no other, and in total once. Messages of no call
// are sent on the standalone stream, which never has an answer, not even if a call's own
// stream was lost.
//
// R1- 2025-11-25 basic/transports: "it MUST NOT broadcast the same message across
// multiple streams."
//
// R2- 2025-11-25 basic/transports: "The server MUST NOT send a JSON-RPC response on the
// stream unless resuming a stream associated with a previous client request."
//
// R4- 2025-11-25 basic/transports: "The server MUST NOT replay messages that would have
// been delivered on a different stream."
func TestEachMessageOnOneStream(t *testing.T) {
	const calls, words = 6, 4
	withChanges(t, map[string]mcp.HandlerFunc{"tell": notifyingTool(words)}, func(s *site, h *changing) {
		sess := s.session()
		listening := s.open(s.ctx(), http.MethodGet, "", sess)
		<-h.acked
		var streams []*stream
		for i := range calls {
			streams = append(streams, s.open(s.ctx(), http.MethodPost, notifyingCall(i, 100+i), sess))
		}
		h.changed <- toolsChanged
		var got [calls][]string
		for _, i := range []int{1, 4} { // resumed after one message
			got[i] = append(got[i], streams[i].next())
			s.dropConnection(streams[i])
		}
		s.advance(time.Minute)
		for _, i := range []int{1, 4} {
			streams[i] = s.resume(sess, streams[i].last)
		}
		for i, st := range streams {
			for len(got[i]) <= words {
				got[i] = append(got[i], st.next())
			}
			st.end()
			equal(t, fmt.Sprint("stream ", i), strings.Join(got[i], "\n"), strings.Join(callMessages(i, 100+i, words), "\n"))
		}
		equal(t, "the stream that listens", listening.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		listening.end()
	})
}

// A client that reconnects without a Last-Event-ID gets the standalone stream, and not the
// messages that it has missed elsewhere: these wait for a client that names the last event.
//
// R2- 2025-11-25 basic/transports: "The server MUST NOT send a JSON-RPC response on the
// stream unless resuming a stream associated with a previous client request."
//
// R9+ 2025-11-25 basic/transports: "it SHOULD issue an HTTP GET to the MCP endpoint, and
// include the Last-Event-ID header to indicate the last event ID it received."
func TestGetWithoutLastEventID(t *testing.T) {
	withChanges(t, map[string]mcp.HandlerFunc{"tell": notifyingTool(2)}, func(s *site, h *changing) {
		sess := s.session()
		st := s.open(s.ctx(), http.MethodPost, notifyingCall(1, 100), sess)
		want := callMessages(1, 100, 2)
		equal(t, "first", st.next(), want[0])
		s.dropConnection(st)
		listening := s.open(s.ctx(), http.MethodGet, "", sess)
		<-h.acked
		s.advance(time.Minute)
		h.changed <- toolsChanged
		equal(t, "the stream that listens", listening.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		again := s.resume(sess, st.last)
		equal(t, "the rest", again.next()+again.next(), want[1]+want[2])
		again.end()
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		listening.end()
	})
}

// An event id belongs to one message for ever: across the streams of calls, the standalone
// stream, and resumed streams, in the order in which they end.
//
// R3+ 2025-11-25 basic/transports: "Event IDs SHOULD encode sufficient information to
// identify the originating stream, enabling the server to correlate a Last-Event-ID to
// the correct stream."
//
// R3- 2025-11-25 basic/transports: "If present, the ID MUST be globally unique across all
// streams within that session"
func TestEventIDsAreUnique(t *testing.T) {
	const calls, words = 20, 3
	withChanges(t, map[string]mcp.HandlerFunc{"tell": notifyingTool(words)}, func(s *site, h *changing) {
		sess := s.session()
		meaning := map[string]string{}
		note := func(id, message string) {
			t.Helper()
			if old, ok := meaning[id]; id == "" || ok && old != message {
				t.Errorf("event id %q is of %s and of %s", id, old, message)
			}
			meaning[id] = message
		}
		listening := s.open(s.ctx(), http.MethodGet, "", sess)
		<-h.acked
		for i := range calls {
			st := s.open(s.ctx(), http.MethodPost, notifyingCall(i, 100+i), sess)
			first := st.next()
			note(st.last, first)
			cursor := st.last
			if i%3 == 0 {
				s.dropConnection(st)
				st = s.resume(sess, cursor)
			}
			for range words {
				message := st.next()
				note(st.last, message)
			}
			st.end()
			h.changed <- toolsChanged
			listening.next()
			note(listening.last, fmt.Sprint("change ", i))
		}
		if want := calls * (words + 2); len(meaning) != want {
			t.Errorf("%d ids for %d messages", len(meaning), want)
		}
		listening.close()
	})
}

// The connection of a call is cut after each byte of its answer. The call runs to its end
// each time, and the messages that the client has not received are sent when it reconnects,
// once, even if one was partly received.
//
// R5+ 2025-11-25 basic/transports: "Disconnection SHOULD NOT be interpreted as the client
// cancelling its request."
//
// R9+ 2025-11-25 basic/transports: "This mechanism applies regardless of how the original
// stream was initiated (via POST or GET)."
func TestResumeAfterEveryByte(t *testing.T) {
	ended := 0
	h := tools(map[string]mcp.HandlerFunc{"tell": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		res, err := notifyingTool(2)(ctx, req, c)
		if err == nil {
			ended++
		}
		return res, err
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		n := 0
		for whole := false; !whole; n++ {
			res, err := s.client.Do(s.request(s.ctx(), http.MethodPost, notifyingCall(n, 7), sess))
			if err != nil {
				t.Fatal(err)
			}
			seen := make([]byte, n)
			_, err = io.ReadFull(res.Body, seen)
			whole = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			s.advance(0)
			res.Body.Close()
			s.advance(10 * time.Second)
			if ended != n+1 {
				t.Fatalf("cut behind %d bytes: %d calls of %d came to their end", n, ended, n+1)
			}
			want := strings.Join(callMessages(n, 7, 2), "\n")
			ids, got := eventsOf(t, string(seen))
			switch {
			case whole:
				continue
			case len(ids) == 0: // no event id to resume from
				continue
			case len(got) < 3:
				rest := s.do(s.request(s.ctx(), http.MethodGet, "", sess, headers{"Last-Event-Id": ids[len(ids)-1]}))
				_, more := eventsOf(t, rest.body)
				got = append(got, more...)
			}
			if all := strings.Join(got, "\n"); all != want {
				t.Errorf("cut behind %d bytes:\n got %s\nwant %s", n, all, want)
			}
		}
		if n < 200 {
			t.Errorf("an answer of %d bytes is too short to be one", n)
		}
	})
}
