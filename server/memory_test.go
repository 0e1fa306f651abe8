// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// An answer for which there is no memory left is dropped, and the client gets an error
// which states that the request has run. An answer that has begun is written to its end,
// and releases its memory.
func TestAnswerWithoutMemory(t *testing.T) {
	const size = 200 << 10
	h := tools(map[string]mcp.HandlerFunc{"t": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		sleep(time.Second)
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat(".", size) + `"}]}`)
	}})
	cfg := server.Config{Limits: server.Limits{PendingPerPrincipal: size / 2}}
	bubble(t, h, cfg, func(s *site) {
		s.net.Buffer = 4 << 10
		ask := func() (*http.Response, error) {
			return s.client.Do(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"t"`), modernHeaders("tools/call", "t")))
		}
		answers := make(chan *http.Response, 2)
		for range 2 {
			go func() { // ends with the header of its answer
				res, err := ask()
				if err != nil {
					t.Error(err)
				}
				answers <- res
			}()
			sleep(time.Millisecond)
		}
		first, second := <-answers, <-answers
		if pending := s.server.Stats().Pending; pending < size/2 {
			t.Errorf("%d bytes are pending", pending)
		}
		third, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		wantBody(t, third, http.StatusTooManyRequests, "limits.pendingPerPrincipal", `"outcome":"not_dispatched"`)
		// Which of the first two comes first is random.
		whole := 0
		for _, res := range []*http.Response{first, second} {
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			switch {
			case err != nil:
				t.Error(err)
			case len(body) > size:
				whole++
			case !strings.Contains(string(body), `"outcome":"completed"`) || !strings.Contains(string(body), "limits.pendingPerPrincipal"):
				t.Errorf("got %s", body)
			}
		}
		if whole != 1 {
			t.Errorf("%d whole answers, want 1", whole)
		}
		sleep(time.Millisecond)
		if pending := s.server.Stats().Pending; pending != 0 {
			t.Errorf("%d bytes are pending at the end", pending)
		}
	})
}

func wantBody(t *testing.T, res *http.Response, status int, parts ...string) {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != status || err != nil {
		t.Errorf("got %d, %v: %.300s", res.StatusCode, err, body)
	}
	for _, part := range parts {
		if !strings.Contains(string(body), part) {
			t.Errorf("%.300s has no %q", body, part)
		}
	}
}
