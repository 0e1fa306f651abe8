// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/foreign"
	"github.com/signalbox-mcp/signalbox/test/tap"
)

// TestMain removes the built command after all tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the command signalbox, built once.
var built struct {
	once     sync.Once
	dir, bin string
	err      error
}

func signalbox(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "signalbox"); built.err != nil { //nolint:usetesting // other tests use it after this one
			return
		}
		built.bin = filepath.Join(built.dir, "signalbox")
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "build", "-o", built.bin, "./cmd/signalbox")
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.bin
}

// object is one of JSON.
type object = map[string]any

// gateway is a running gateway in front of a server with the tools read and write.
type gateway struct {
	// Base is its public URL, and URL that of the endpoint.
	Base, URL string

	// backend is the proxy before the server.
	backend *tap.Tap

	folder string // of the configuration and the audit record
	state  string
	output *lockedBuffer
	sent   sentTokens
}

// startGateway starts a gateway with these keys of the configuration besides publicURL and
// the server.
func startGateway(t *testing.T, keys object) *gateway {
	t.Helper()
	return startGatewayAt(t, foreign.FreeAddress(t), keys)
}

// startGatewayAt is startGateway with an address that a provider knows before.
func startGatewayAt(t *testing.T, at string, keys object) *gateway {
	t.Helper()
	g := &gateway{Base: "http://" + at, URL: "http://" + at + "/mcp", folder: t.TempDir(), output: new(lockedBuffer)}
	g.backend = tap.Before(t, serve(t, tools()).URL)
	config := object{
		"publicURL": g.Base, "log": object{"level": "debug"}, "audit": object{"file": "audit.jsonl"}, "limits": object{"firstList": "10s"},
		"mcpServers": object{"tools": object{"url": g.backend.URL + "/mcp", "prefix": ""}},
	}
	maps.Copy(config, keys)
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(g.folder, "signalbox.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	// The path of a socket is short.
	if g.state, err = os.MkdirTemp("", "state"); err != nil { //nolint:usetesting // a shorter path
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(g.state) })
	t.Cleanup(func() { g.checkSent(t) }) // when the gateway has ended
	g.run(t, exec.CommandContext(context.WithoutCancel(t.Context()), signalbox(t), "serve", "--config", file, "--listen", at))
	return g
}

// run starts the command and returns when it listens. It ends with the test.
func (g *gateway) run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+g.state)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in its output
		w.Close()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(foreign.StopGrace):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("the output of the gateway:\n%s", g.output.String())
		}
	})
	listening := make(chan bool, 1)
	go func() {
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			_, _ = io.WriteString(g.output, line) // does not fail
			if strings.HasPrefix(line, "listening on ") {
				listening <- true
			}
			if err != nil {
				close(listening)
				return
			}
		}
	}()
	if !<-listening {
		t.Fatalf("the gateway ended:\n%s", g.output.String())
	}
}

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answer is a response of the gateway.
type answer struct {
	status    int
	challenge string
	header    http.Header
	body      string
}

// initialize is a request that any client may begin with.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// send sends a request with header fields, pairs of names and values.
func (g *gateway) send(t *testing.T, method, path, body string, fields ...string) answer {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, g.Base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
		g.sent.add(t, fields[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	// A stream that was opened has no end.
	text, err := io.ReadAll(io.LimitReader(res.Body, bodyOf(res)))
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header.Get("WWW-Authenticate"), res.Header, string(text)}
}

// bodyOf returns how much of a body to read: nothing of a stream of events without an end.
func bodyOf(res *http.Response) int64 {
	if res.Request.Method == http.MethodGet && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return 0
	}
	return 1 << 20
}

// with sends the first request of a client with a token.
func (g *gateway) with(t *testing.T, token string) answer {
	t.Helper()
	return g.send(t, http.MethodPost, "/mcp", initialize, "Authorization", "Bearer "+token)
}
