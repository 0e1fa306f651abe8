// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// maxFrames bounds the functions of this module between the goroutine of a modern call and
// its RoundTrip: a reader of a stack trace, and of the code, goes through all of them.
const maxFrames = 16

// With a folder for its state, a gateway on loopback calls servers without a configured
// authorization as their users.
func TestFramesOfACall(t *testing.T) {
	t.Run("as itself", func(t *testing.T) { testFrames(t, signalbox.Options{}) })
	t.Run("as a user", func(t *testing.T) { testFrames(t, signalbox.Options{StateFolder: t.TempDir()}) })
}

func testFrames(t *testing.T, opt signalbox.Options) {
	var stacks string // of all goroutines, while the backend has the request
	served := server.New(cannedServer(), server.Config{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/call" {
			text := make([]byte, 1<<20)
			stacks = string(text[:runtime.Stack(text, true)])
		}
		served.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		backend.Close()
		if err := served.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg := config.Config{Servers: []config.Backend{{Name: "b", URL: backend.URL}}}
	g := httptest.NewServer(gatewaytest.New(t, cfg, opt))
	t.Cleanup(g.Close)
	body, headers := gatewaytest.ModernRequest("1", "tools/call", "b__add", `"arguments":{}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := g.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	frames := framesAboveRoundTrip(stacks)
	if resp.StatusCode != http.StatusOK || len(frames) == 0 || len(frames) > maxFrames {
		t.Errorf("status %d, and %d functions of this module above RoundTrip, want 1 to %d:\n%s", resp.StatusCode, len(frames), maxFrames, strings.Join(frames, "\n"))
	}
}

// framesAboveRoundTrip returns the functions of this module that have called the RoundTrip
// of a gateway, innermost first.
func framesAboveRoundTrip(stacks string) []string {
	const module, roundTrip = "github.com/signalbox-mcp/signalbox", ".RoundTrip("
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if !strings.Contains(stack, module+"/server.(*") || !strings.Contains(stack, roundTrip) {
			continue
		}
		var frames []string
		for line := range strings.SplitSeq(stack[strings.LastIndex(stack, roundTrip):], "\n") {
			if end := strings.LastIndexByte(line, '('); strings.HasPrefix(line, module) && !strings.Contains(line, roundTrip) {
				frames = append(frames, strings.TrimPrefix(line[:end], module))
			}
		}
		return frames
	}
	return nil
}
