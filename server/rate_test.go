// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

func progressMessage(i int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d}}`, i)
}

// DELIVERY 5.7, I21: of a flood of progress the client receives a burst and the latest,
// however fast it reads; the result does not wait.
//
// C9- 2026-07-28 basic/patterns/progress: "Both parties SHOULD implement rate limiting
// to prevent flooding"
func TestFloodOfProgress(t *testing.T) {
	const flood = 100_000
	h := tools(map[string]mcp.HandlerFunc{"flood": progressBurst(t, flood)})
	bubble(t, h, server.Config{}, func(s *site) {
		start := time.Now()
		events := s.post(withToken("1", "flood", "7"), s.session()).events(t)
		if d := time.Since(start); d != 0 {
			t.Errorf("the result came after %v, want at once", d)
		}
		if len(events) != 102 {
			t.Fatalf("%d events, want 100, the latest and the result", len(events))
		}
		equal(t, "the last of the burst", events[99], progressMessage(99))
		equal(t, "the latest", events[100], progressMessage(flood-1))
		equal(t, "result", events[101], `{"jsonrpc":"2.0","id":1,"result":{}}`)
		if got := s.server.Stats().Merged; got != flood-101 {
			t.Errorf("merged = %d, want %d", got, flood-101)
		}
	})
}

// A continuous flood is reduced to ten messages a second, and a message that was kept back
// when the flood stops is delivered soon, not with the result an hour later.
//
// C9+ 2026-07-28 basic/patterns/progress: "Both parties SHOULD implement rate limiting
// to prevent flooding"
func TestProgressRateLimit(t *testing.T) {
	release := make(chan struct{})
	h := tools(map[string]mcp.HandlerFunc{"flood": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for i := range 5000 {
			if err := c.Notify(ctx, note(t, "notifications/progress", fmt.Sprintf(`{"progressToken":7,"progress":%d}`, i))); err != nil {
				return nil, err
			}
			sleep(time.Millisecond)
		}
		select {
		case <-release:
		case <-time.After(2 * time.Hour): // if the latest is not delivered
		}
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		release = make(chan struct{})
		st := s.open(s.ctx(), http.MethodPost, withToken("1", "flood", "7"), s.session())
		start := time.Now()
		n, last := 0, ""
		for last != progressMessage(4999) {
			if last = st.next(); strings.Contains(last, `"result"`) {
				t.Fatalf("the latest never came, and the result after %v", time.Since(start))
			}
			n++
		}
		if d := time.Since(start); d > 5100*time.Millisecond {
			t.Errorf("the latest came after %v; want within 100ms of its making", d)
		}
		if n > 152 || n < 148 {
			t.Errorf("%d events, want 100 and ten for each of five seconds", n)
		}
		s.advance(time.Hour)
		close(release)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		st.end()
	})
}

// Log messages may also come in a burst; those beyond it are counted.
func TestFloodOfLogs(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"flood": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for i := range 3000 {
			if err := c.Notify(ctx, note(t, "notifications/message", fmt.Sprintf(`{"level":"info","data":%d}`, i))); err != nil {
				return nil, err
			}
			if i%100 == 99 {
				sleep(time.Microsecond) // lets the client keep up: none is dropped because it is slow
			}
		}
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		events := s.post(raw("1", "tools/call", `{"name":"flood"}`), s.session()).events(t)
		dropped := s.server.Stats().Dropped
		if len(events) != 1001 || dropped != 2000 {
			t.Errorf("%d events, %d dropped; want 1000 and the result, 2000", len(events), dropped)
		}
	})
}

// A client that does not read costs no more than its stream holds, whatever the size of the
// flood.
func TestFloodCostsBoundedMemory(t *testing.T) {
	text := strings.Repeat("x", 1<<10)
	entered, release := make(chan struct{}), make(chan struct{})
	h := tools(map[string]mcp.HandlerFunc{"flood": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for i := range 5_000 {
			params := fmt.Sprintf(`{"progressToken":7,"progress":%d,"message":%q}`, i, text)
			if err := c.Notify(ctx, note(t, "notifications/progress", params)); err != nil {
				return nil, err
			}
		}
		close(entered)
		<-release
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		entered, release = make(chan struct{}), make(chan struct{})
		sess := s.session()
		before := heap()
		st := s.open(s.ctx(), http.MethodPost, withToken("1", "flood", "7"), sess)
		defer st.close()
		<-entered
		if grown := heap() - before; grown > 1<<20 {
			t.Errorf("5 MB of progress that is not read cost %d KiB; want at most 1 MiB", grown>>10)
		}
		close(release)
	})
}

// heap returns the bytes of the heap in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
