// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// outputEnv names the variable with which this program is a helper: it is the file to print.
const outputEnv = "SIGNALBOX_TEST_HELPER"

// helperMain prints a file, or does what its name describes.
func helperMain(file string) int {
	switch filepath.Base(file) {
	case "hang":
		fmt.Println(`{"headers": {"X": "canary"}}`)
		<-time.After(time.Hour)
	case "fail":
		fmt.Println(`{"headers": {"X": "canary"}}`)
		return 3
	case "flood":
		for { // the bound is noticed by the time that the test takes
			if _, err := os.Stdout.WriteString(strings.Repeat("canary ", 1000)); err != nil {
				return 0
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 1
	}
	os.Stdout.Write(text)
	return 0
}

// newHelper returns the Credentials of a server, with a program that prints the file.
func newHelper(t *testing.T, url, file string, log *slog.Logger) *Helper {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHelper(HelperConfig{Backend: "legacy", URL: url, Command: []string{program}, Env: []string{outputEnv + "=" + file}, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// The headers that the program prints are sent with each request, until the server refuses them,
// and then those of the next run.
func TestHelper(t *testing.T) {
	accepted := "canary-1"
	s := &faultyserver.HTTP{Modern: true}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != accepted {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "headers")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"headers": {"x-api-key": "canary-1"}}`)
	h := newHelper(t, server.URL, file, nil)
	c := client.NewHTTP(server.URL, client.Config{Name: "legacy", Credentials: h})
	defer c.Close()
	call := func() error {
		t.Helper()
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Serve(t.Context(), req, nil)
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	write(`{"headers": {"x-api-key": "canary-2"}, "expires": "2999-01-01T00:00:00Z"}`)
	if err := call(); err != nil {
		t.Errorf("with the headers of the first run: %v", err)
	}
	accepted = "canary-2"
	if err := call(); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
	if last := h.Last(); last.Err != nil || last.Until.After(time.Now().Add(DefaultEvery)) {
		t.Errorf("last run: %+v", last)
	}
	accepted = "canary-3"
	err := call()
	if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Outcome != mcp.NotDispatched || f.Reason != "SB_AUTH_BACKEND" || !strings.Contains(f.Message, "headersHelper of mcpServers.legacy") {
		t.Errorf("error %v", err)
	}
}

// A program that hangs, fails, prints too much, or prints what it must not, ends requests before
// they are sent. What it has printed is neither in the error nor in the log (identity attack 39).
func TestHelperFails(t *testing.T) {
	folder := t.TempDir()
	for name, tt := range map[string]struct{ output, want string }{
		"hang":      {"", "did not end within 200ms"},
		"fail":      {"", "exit status 3"},
		"flood":     {"", "more than 64 KiB"},
		"missing":   {"", "exit status 1"},
		"text":      {"canary", "printed no object"},
		"list":      {`{"headers": ["canary"]}`, "printed no object"},
		"duplicate": {`{"headers": {"X": "canary", "X": "canary"}}`, "printed no object"},
		"spellings": {`{"headers": {"X-Y": "canary", "x-y": "canary"}}`, "the header X-Y twice"},
		"protocol":  {`{"headers": {"Mcp-Session-Id": "canary"}}`, "set by the gateway"},
		"http":      {`{"headers": {"host": "canary"}}`, "set by the gateway"},
		"no name":   {`{"headers": {"canary of mine": "x"}}`, "no valid name"},
		"when":      {`{"headers": {"X": "canary"}, "expires": "canary"}`, "printed no object"},
	} {
		file, log := filepath.Join(folder, name), new(bytes.Buffer)
		if tt.output != "" {
			if err := os.WriteFile(file, []byte(tt.output), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h := newHelper(t, "http://backend.test", file, slog.New(slog.NewTextHandler(log, nil)))
		if name == "hang" {
			h.timeout = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := h.For(ctx, nil)
		cancel()
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "correct headersHelper of mcpServers.legacy") {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
		if strings.Contains(fmt.Sprint(err)+log.String(), "canary") {
			t.Errorf("%s: what was printed is in the error %v or the log %s", name, err, log)
		}
	}
}

// The headers are used until the time that the program prints.
func TestHelperExpires(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	until := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"headers": {}, "expires": %q}`, until.Format(time.RFC3339)), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHelper(t, "http://backend.test", file, nil)
	if _, err := h.For(t.Context(), nil); err != nil || !h.Last().Until.Equal(until) {
		t.Errorf("until %v, %v, want %v", h.Last().Until, err, until)
	}
}
