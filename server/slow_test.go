// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// A client on a slow line has not stopped reading: it receives a large answer, however long
// that takes. A modern client could not reconnect for the rest (I37).
func TestSlowReaderGetsALargeAnswer(t *testing.T) {
	const size = 150 << 10
	h := tools(map[string]mcp.HandlerFunc{"t": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat(".", size) + `"}]}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		s.net.Buffer = 512
		res, err := s.client.Do(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"t"`), modernHeaders("tools/call", "t")))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, piece, began := 0, make([]byte, 1000), time.Now()
		for err == nil {
			var n int
			n, err = res.Body.Read(piece)
			got += n
			sleep(200 * time.Millisecond)
		}
		if !errors.Is(err, io.EOF) || got < size {
			t.Errorf("got %d bytes and %v, want all of them", got, err)
		}
		if took := time.Since(began); took < 2*server.DefaultWriteTimeout {
			t.Errorf("it took %v, which is not slow", took)
		}
	})
}

// postHalfClosed sends a POST over its own connection, closes its writing half, and returns
// all that the server sends after that.
func (s *site) postHalfClosed(body string, hs headers) string {
	s.t.Helper()
	conn, err := s.net.Dial(s.ctx())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	var head strings.Builder
	for k, v := range hs {
		fmt.Fprintf(&head, "%s: %s\r\n", k, v)
	}
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n%s\r\n%s", len(body), head.String(), body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.advance(0) // until the request is served
	if err := conn.CloseWrite(); err != nil {
		s.t.Fatal(err)
	}
	got, _ := io.ReadAll(conn) // with or without an error
	return string(got)
}

// FAULTS 27: a client that has closed its half of the connection counts as gone. But it may
// still read, so that what it receives then must not pass for an answer: either there is
// one, or the transport breaks visibly (I3).
func TestHalfClosedClient(t *testing.T) {
	speak := func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		n, err := mcp.NewNotification("notifications/progress", []byte(`{"progressToken":"p","progress":1}`))
		if err != nil {
			return nil, err
		}
		if err := c.Notify(ctx, n); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	silent := func(ctx ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h := tools(map[string]mcp.HandlerFunc{"silent": silent, "speaking": speak})
	const token = `,"_meta":{"progressToken":"p"}`
	legacy := func(tool string) string { return raw("1", "tools/call", `{"name":"`+tool+`"`+token+`}`) }
	tests := []struct {
		name string
		send func(*site) string
		want string // must be unusable for a client that reads it
	}{
		{"modern, before the header", func(s *site) string {
			return s.postHalfClosed(modern("1", "tools/call", `"name":"silent"`), modernHeaders("tools/call", "silent"))
		}, ""},
		{"legacy, before the header", func(s *site) string { return s.postHalfClosed(legacy("silent"), s.session()) }, ""},
		{"legacy, on a stream", func(s *site) string { return s.postHalfClosed(legacy("speaking"), s.session()) }, `"progress":1`},
		{"batch", func(s *site) string {
			return s.postHalfClosed(`[`+legacy("speaking")+`]`, s.handshake(opening("2025-03-26")))
		}, `"progress":1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, h, server.Config{}, func(s *site) {
				got := tt.send(s)
				switch {
				case tt.want == "" && got != "":
					t.Errorf("got %q, want nothing", got)
				case !strings.Contains(got, tt.want):
					t.Errorf("got %q, want %s in it", got, tt.want)
				case strings.HasSuffix(got, "0\r\n\r\n"):
					t.Errorf("got %q, which looks complete", got)
				}
			})
		})
	}
}
