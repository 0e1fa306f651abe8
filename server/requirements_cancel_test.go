// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// If a modern client disconnects at any byte of the response, its request is cancelled at
// once, and nothing that the Handler sends afterwards is accepted.
//
// C1- 2026-07-28 basic/transports/streamable-http: "The server SHOULD stop work on the
// cancelled request as soon as practical and MUST NOT send any further messages for
// it."
func TestDisconnectAtEveryByte(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 23
	}
	var late chan error
	h := tools(map[string]mcp.HandlerFunc{"talk": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		notify := func(ctx ctxType, i int) error {
			return c.Notify(ctx, note(t, "notifications/progress", fmt.Sprintf(`{"progressToken":7,"progress":%d}`, i)))
		}
		if err := errors.Join(notify(ctx, 1), notify(ctx, 2)); err != nil {
			return nil, err
		}
		<-ctx.Done()
		late <- notify(context.WithoutCancel(ctx), 3)
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		late = make(chan error, 1)
		cuts := 0
		for at := 0; s.readAndDisconnect(at); at += step {
			start := time.Now()
			if err := <-late; !errors.Is(err, mcp.ErrRequestEnded) || time.Since(start) != 0 {
				t.Fatalf("cut at %d: Notify = %v after %v; want at once that the request has ended", at, err, time.Since(start))
			}
			cuts++
		}
		<-late
		if cuts*step < 300 {
			t.Errorf("only %d cuts", cuts)
		}
		s.advance(0) // the last Handler has been cancelled, and has yet to return
		if got := s.server.Stats(); got.InFlight != 0 {
			t.Errorf("%d requests are in flight at the end", got.InFlight)
		}
	})
}

// readAndDisconnect calls the tool "talk", reads at bytes of the response and disconnects.
// It reports whether there were that many.
func (s *site) readAndDisconnect(at int) bool {
	s.t.Helper()
	conn, err := s.net.Dial(s.ctx())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	body := raw("1", "tools/call", `{"name":"talk","_meta":{`+meta+`,"progressToken":7}}`)
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"+
		"Mcp-Name: talk\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait() // everything before the end has been written
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, err = io.ReadFull(conn, make([]byte, at))
	return err == nil
}

// On a pipe the server cancels subscriptions only: no request that was answered, has
// failed, was cancelled, or is ended by Shutdown.
//
// C3- 2026-07-28 basic/patterns/cancellation: "Servers MUST NOT send
// `notifications/cancelled` for any other purpose."
func TestServerCancelsOnlyListens(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, g *gate) {
		c.send(modern("1", "tools/call", `"name":"echo"`))
		c.next()
		c.send(modern("2", "tools/call", `"name":"no such"`))
		c.next()
		c.send(modern("3", "tools/call", `"name":"wait"`))
		<-g.entered
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		<-g.cause
		c.send(modern("4", "tools/call", `"name":"wait"`))
		<-g.entered
		c.send(modern("5", "subscriptions/listen", ""))
		c.next()
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		go func() { _ = c.server.Shutdown(ctx) }() // ends within its second
		var cancelled, answered []string
		for c.lines.Scan() {
			if line := c.lines.Text(); strings.Contains(line, "notifications/cancelled") {
				cancelled = append(cancelled, line)
			} else {
				answered = append(answered, line)
			}
		}
		equal(t, "cancelled", strings.Join(cancelled, "\n"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		if len(answered) != 2 {
			t.Errorf("answered: %q; want the end of the listen and of the call", answered)
		}
		<-c.done
		c.done <- nil
	})
}

// A flood of invalid cancellations is neither answered nor logged, and requests in flight
// go on.
//
// C6- 2026-07-28 basic/patterns/cancellation: "Invalid cancellation notifications
// SHOULD be ignored"
func TestInvalidCancelsAreIgnored(t *testing.T) {
	var log bytes.Buffer
	cfg := server.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	pipesGated(t, cfg, func(c *console, g *gate) {
		c.send(modern("1", "tools/call", `"name":"wait"`))
		<-g.entered
		for range 200 {
			for _, params := range []string{
				``, `,"params":{}`, `,"params":{"requestId":null}`, `,"params":{"requestId":{}}`, `,"params":{"requestId":1.5}`, `,"params":{"requestId":"1"}`,
				`,"params":{"requestId":7}`, `,"params":{"requestId":[1]}`, `,"params":{"reason":"1"}`,
				`,"params":{"reason":"1","x":{"requestId":1}}`, `,"params":{"requestid":1}`, `,"params":{"RequestId":1}`, `,"params":{"requestId":7,"requestId":1}`,
			} {
				c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"` + params + `}`)
			}
		}
		close(g.release)
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`) // it is over
		c.closeInput()
		c.wantEnd()
	})
	if n := strings.Count(log.String(), "\n"); n > 5 {
		t.Errorf("%d lines were logged: %.500s", n, log.String())
	}
}

// In a batch they are ignored as well: each is counted as a cancel of no request, has no
// answer, and does not affect the other requests of the batch.
//
// C6- 2025-11-25 basic/utilities/cancellation: "Invalid cancellation notifications
// **SHOULD** be ignored:"
func TestInvalidCancelsInABatch(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled"`
	w := &watcher{}
	gated(t, server.Config{Observe: w.observe}, func(s *site, g *gate) {
		sess := s.handshake(opening("2025-03-26"))
		first := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		senseless := []string{
			cancel + `,"params":{"requestId":{}}}`, cancel + `,"params":[1]}`, cancel + `,"params":1}`, cancel + `,"params":null}`,
			cancel + `,"params":{"requestId":1,"requestId":1}}`,
		}
		alone := s.post("["+strings.Join(senseless, ",")+"]", sess)
		if alone.status != http.StatusAccepted || alone.body != "" {
			t.Errorf("senseless cancels alone: %d %s; want 202 and nothing", alone.status, alone.body)
		}
		beside := s.post("["+strings.Join(senseless, ",")+","+raw("2", "ping", "")+"]", sess)
		equal(t, "senseless cancels beside a ping", strings.Join(beside.events(t), "\n"), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		events := w.take()
		for _, e := range events {
			if want := (server.Event{Kind: server.IdleCancel, Remote: connection, Session: key(sess), Detail: e.Detail}); e != want {
				t.Errorf("event %+v; want %+v", e, want)
			}
		}
		if got := s.server.Stats().IdleCancels; len(events) != 2*len(senseless) || got != uint64(len(events)) {
			t.Errorf("%d events of cancels of no request, and %d counted; want %d", len(events), got, 2*len(senseless))
		}
		close(g.release)
		equal(t, "what was in flight", (<-first).body, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	})
}
