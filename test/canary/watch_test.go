// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Every part is found wherever it begins in the text.
func TestScanFindsEveryPart(t *testing.T) {
	var s canary.Set
	s.Add(t, "ann", secret)
	for from := range len(secret) - 15 {
		for before := range 20 {
			text := strings.Repeat("-", before) + secret[from:from+16] + "-"
			if got := s.Scan("log", text); len(got) != 1 || len(got[0].Around) != before {
				t.Errorf("%q: got %v", text, got)
			}
		}
	}
}

func TestWatchedLog(t *testing.T) {
	w := new(canary.Set).Watch()
	w.Add(t, "ann", secret)
	var out bytes.Buffer
	log := slog.New(w.Handler(slog.NewTextHandler(&out, nil)))
	log.With(slog.String("ok", "value")).InfoContext(t.Context(), "shown")
	log.DebugContext(t.Context(), "not shown")
	if got := w.Leaks(); len(got) != 0 || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "ok=value") {
		t.Fatalf("found %v in %s", got, out.String())
	}
	for name, write := range map[string]func(*slog.Logger){
		"message":   func(l *slog.Logger) { l.DebugContext(t.Context(), "with "+secret) },
		"attribute": func(l *slog.Logger) { l.DebugContext(t.Context(), "with", slog.Any("error", errors.New(secret))) },
		"with":      func(l *slog.Logger) { l.With(slog.String("token", secret)).DebugContext(t.Context(), "with") },
		"group":     func(l *slog.Logger) { l.WithGroup("g").DebugContext(t.Context(), "with", slog.String("token", secret)) },
	} {
		w := new(canary.Set).Watch()
		w.Add(t, "ann", secret)
		write(slog.New(w.Handler(nil)))
		write(slog.New(w.Handler(nil)))
		if got := w.Leaks(); len(got) != 1 || got[0].Secret != "ann" || got[0].Where != "log" {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

// A secret is found that is written in parts.
func TestWatchedConnection(t *testing.T) {
	for _, s := range []string{secret, strings.Split(jwt, ".")[1]} {
		for at := range len(s) {
			w := new(canary.Set).Watch()
			w.Add(t, "ann", secret)
			w.Add(t, "token", jwt)
			near, far := memnet.Pipe(1 << 10)
			c := w.Sent("backend", near)
			for _, part := range []string{"GET /", s[:at], s[at:], "\r\n"} {
				if _, err := io.WriteString(c, part); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.Leaks(); len(got) != 1 || got[0].Where != "backend" {
				t.Errorf("%q %q: found %v", s[:at], s[at:], got)
			}
			c.Close()
			if got, err := io.ReadAll(far); err != nil || string(got) != "GET /"+s+"\r\n" {
				t.Errorf("sent %q, %v", got, err)
			}
		}
	}
}

func TestAuthorized(t *testing.T) {
	var got []string
	h := canary.Authorized(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header["Authorization"]...) }))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
	r.Header.Set("Authorization", "Bearer own")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if len(got) != 2 || got[0] != "Bearer "+canary.Token || got[1] != "Bearer own" {
		t.Errorf("got %q", got)
	}
}
