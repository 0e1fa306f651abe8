// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// largeCall is a call of the tool with a result larger than all buffers in between.
func largeCall(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"large"}}`, id)
}

func largeResult(size int) mcp.Handler {
	return tools(map[string]mcp.HandlerFunc{"large": fixedResult(`{"content":[{"type":"text","text":"` + strings.Repeat(".", size) + `"}]}`)})
}

// A client that does not read, or only slowly, does not keep the server from ending: it has
// as long as a pipe for the last messages.
func TestSSEEndDoesNotWaitForASlowReader(t *testing.T) {
	for name, pause := range map[string]time.Duration{"stuck": time.Hour, "slow": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			const before = 5 * time.Second // less than a write may take
			sseSite(t, largeResult(1<<20), server.Config{}, func(s *site) {
				s.net.Buffer = 512
				c := s.connect()
				s.initializeSSE(c)
				s.send(c.to, largeCall(1))
				ctx, stop := context.WithCancel(s.ctx())
				var reader sync.WaitGroup
				reader.Go(func() { // ends with the stream, or with the test
					piece := make([]byte, 1000)
					for {
						select {
						case <-time.After(pause):
						case <-ctx.Done():
							return
						}
						if _, err := c.res.Body.Read(piece); err != nil {
							return
						}
					}
				})
				s.advance(before)
				began := time.Now()
				if err := s.server.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("the end took %v", took)
				}
				stop()
				c.cancel()
				reader.Wait()
			})
		})
	}
}

// A client that sends and does not read is read from no faster than it reads, and the
// number of its pending messages is bounded: each of them was read.
func TestSSEPendingMessagesAreBounded(t *testing.T) {
	const most, sent = 4, 40
	sseSite(t, largeResult(64<<10), server.Config{Limits: server.Limits{InFlightPerSession: most}, WriteTimeout: time.Hour}, func(s *site) {
		s.net.Buffer = 512
		c := s.connect()
		s.initializeSSE(c)
		var answers []<-chan reply
		for i := range sent {
			r := s.request(s.ctx(), http.MethodPost, largeCall(i+1), headers{"Accept": "-"})
			u, err := r.URL.Parse(c.to)
			if err != nil {
				t.Fatal(err)
			}
			r.URL = u
			answers = append(answers, s.async(r))
			s.advance(0)
		}
		taken, refused, waiting := 0, 0, 0
		for _, a := range answers {
			select {
			case got := <-a:
				switch got.status {
				case http.StatusAccepted:
					taken++
				case http.StatusTooManyRequests:
					refused++
					if !strings.Contains(got.body, "limits.inFlightPerSession") || got.header.Get("Retry-After") == "" {
						t.Errorf("refused with %s", got.body)
					}
				default:
					t.Errorf("answered with %d %s", got.status, got.body)
				}
			default:
				waiting++
			}
		}
		if waiting == 0 || waiting > 2*most || refused == 0 || taken == 0 {
			t.Errorf("of %d messages %d were taken, %d refused, and %d wait; want at most %d that wait", sent, taken, refused, waiting, 2*most)
		}
		c.cancel()
		synctest.Wait()
	})
}

// The endpoint for messages is on the requested host, however the path is spelled.
func TestSSEEndpointStaysOnTheHost(t *testing.T) {
	for _, path := range []string{"/mcp", "//evil.example/mcp", "///evil.example", "/%2Fevil.example/x", `/\evil.example/x`} {
		sseSite(t, tools(nil), server.Config{}, func(s *site) {
			ctx, cancel := context.WithCancel(s.ctx())
			defer cancel()
			r := s.request(ctx, http.MethodGet, "", headers{"Accept": "text/event-stream"})
			r.URL.Opaque, r.URL.Path = "", ""
			r.URL = &url.URL{Scheme: "http", Host: "localhost", Opaque: "//localhost" + path}
			res, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			buf := make([]byte, 300)
			n, err := res.Body.Read(buf)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v", path, res.Status, err)
			}
			_, to, _ := strings.Cut(string(buf[:n]), "data: ")
			base := &url.URL{Scheme: "http", Host: "localhost", Path: path}
			u, err := base.Parse(strings.TrimSpace(to))
			if err != nil || u.Host != "localhost" || strings.Contains(to, `\`) {
				t.Errorf("%s: messages go to %q, which is %v, %v", path, to, u, err)
			}
		})
	}
}

// A connection counts as a session.
func TestSSEConnectionsAreCounted(t *testing.T) {
	sseSite(t, tools(nil), server.Config{}, func(s *site) {
		a, b := s.connect(), s.connect()
		s.initializeSSE(a)
		if got := s.server.Stats().Sessions; got != 2 {
			t.Errorf("%d sessions, want 2", got)
		}
		a.cancel()
		b.cancel()
		s.advance(time.Second)
		if got := s.server.Stats().Sessions; got != 0 {
			t.Errorf("%d sessions when both have gone, want 0", got)
		}
	})
}
