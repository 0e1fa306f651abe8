// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package yardstick

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
)

// serve serves a handler in front of a canned backend.
func serve(t *testing.T, front func(backend *url.URL) http.Handler) *httptest.Server {
	t.Helper()
	backend := httptest.NewServer(canned.NewServer(slog.New(slog.DiscardHandler)))
	t.Cleanup(backend.Close)
	u, err := url.Parse(backend.URL + "/mcp?" + canned.Setup{}.Query())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(front(u))
	t.Cleanup(s.Close)
	return s
}

// TestNoAnswerIsLost is the reason why the load generator compares each response: a proxy
// that responds before it has read the end of a request loses some.
func TestNoAnswerIsLost(t *testing.T) {
	for name, front := range map[string]func(*url.URL) http.Handler{
		"proxy":      func(u *url.URL) http.Handler { return Proxy(u, 1, slog.New(slog.DiscardHandler)) },
		"three ways": func(u *url.URL) http.Handler { return Proxy(u, 3, slog.New(slog.DiscardHandler)) },
		"hop":        Hop,
	} {
		for _, era := range []canned.Era{canned.Legacy, canned.Modern} {
			for tool, n := range map[string]int{"text_100": 300, "text_1048576": 30, "sse_5": 50} {
				t.Run(fmt.Sprint(name, era, tool), func(t *testing.T) {
					s := serve(t, front)
					var clients []*load.Client
					for range 4 {
						c, err := load.NewClient(t.Context(), load.Target{URL: s.URL, Era: era}, load.ToolCall(tool, true), nil)
						if err != nil {
							t.Fatal(err)
						}
						defer c.Close(t.Context())
						clients = append(clients, c)
					}
					if r := load.Run(t.Context(), clients, n); r.Errors > 0 {
						t.Errorf("%d of %d: %v", r.Errors, n, r.First)
					}
				})
			}
		}
	}
}

func TestHopSaysWhatItCannotDo(t *testing.T) {
	s := serve(t, Hop)
	for name, body := range map[string]io.Reader{
		"no length": struct{ io.Reader }{strings.NewReader("{}")}, "too long": strings.NewReader(strings.Repeat(" ", bufferSize+1)),
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, resp.StatusCode)
		}
	}
	gone := httptest.NewServer(nil)
	u, err := url.Parse(gone.URL)
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	w := httptest.NewRecorder()
	Hop(u).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}")))
	if w.Code != http.StatusBadGateway {
		t.Errorf("status %d with nobody behind it", w.Code)
	}
}

func TestMint(t *testing.T) {
	s := httptest.NewServer(Mint())
	defer s.Close()
	target := load.Target{URL: s.URL, Era: canned.Legacy}
	host, err := target.Host()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := load.Dial(t.Context(), host, "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	seen := make(map[string]bool)
	for range 10 {
		id, err := load.OpenSession(t.Context(), conn, target)
		if err != nil || seen[id] {
			t.Fatalf("session %q again, or %v", id, err)
		}
		seen[id] = true
		if err := load.CloseSession(t.Context(), conn, target, id); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRelayHTTPSaysWhatItCannotDo checks that a relay responds even if its program has
// ended, and that a notification has no response to wait for.
func TestRelayHTTPSaysWhatItCannotDo(t *testing.T) {
	const call, note = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for name, tt := range map[string]struct {
		verb, body, answer string
		status             int
	}{
		"a request":              {http.MethodPost, call, `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", http.StatusOK},
		"a notification":         {http.MethodPost, note, "", http.StatusAccepted},
		"the end of a session":   {http.MethodDelete, "", "", http.StatusOK},
		"nobody behind it":       {http.MethodPost, call, "", http.StatusBadGateway},
		"half an answer, an end": {http.MethodPost, call, `{"jsonrpc":`, http.StatusBadGateway},
	} {
		var sent strings.Builder
		w := httptest.NewRecorder()
		overHTTP(&sent, strings.NewReader(tt.answer)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.verb, "/mcp", strings.NewReader(tt.body)))
		if w.Code != tt.status || strings.TrimSuffix(sent.String(), "\n") != tt.body {
			t.Errorf("%s: status %d, and the program got %q", name, w.Code, sent.String())
		}
		if want := strings.TrimSuffix(tt.answer, "\n"); w.Code == http.StatusOK && w.Body.String() != want {
			t.Errorf("%s: answer %q, want %q", name, w.Body, want)
		}
	}
}
