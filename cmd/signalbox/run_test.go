// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want int
		said string
	}{
		{"help", nil, exitOK, ""},
		{"done", []string{"version"}, exitOK, ""},
		{"failed", []string{"check", "none.yaml"}, exitFailed, "signalbox: check "},
		{"unknown command", []string{"tols"}, exitUsage, `signalbox: unknown command "tols"; did you mean "tools"? (see 'signalbox --help')` + "\n"},
		{"unknown flag", []string{"call", "--x"}, exitUsage, "signalbox: unknown flag: --x (see 'signalbox call --help')\n"},
		{"escapes", []string{"\x1b[2J\nsignalbox: fine"}, exitUsage, `signalbox: unknown command "\x1b[2J\nsignalbox: fine" (see`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			if got := runCommand(t.Context(), e, tt.args...); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
			if got := e.Err.String(); !strings.HasPrefix(got, tt.said) || tt.said == "" && got != "" {
				t.Errorf("said %q, want %q", got, tt.said)
			}
		})
	}
}

// A gateway in the process of its caller, as a program that embeds the command uses it. It
// leaves no goroutines.
func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	r, w := io.Pipe() // a client that sends nothing
	defer w.Close()
	e.Stdin = r
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := runCommand(ctx, e, "serve", "--stdio", "--listen", "127.0.0.1:0"); code != exitOK {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
	if !strings.Contains(e.Err.String(), "listening on http://127.0.0.1:") {
		t.Errorf("said %q", e.Err)
	}
}

// On a terminal, serve prints how to use it from a client, also with a configuration.
func TestServePrintsTheLineForClients(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{false, true} {
		e := commandtest.New(t, "")
		e.Terminal = func(any) bool { return terminal }
		commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code := runCommand(ctx, e, "serve", "--listen", "127.0.0.1:0"); code != exitOK {
			t.Errorf("exit code %d: %s", code, e.Err)
		}
		if got := strings.Contains(e.Err.String(), "claude mcp add --transport http signalbox http://127.0.0.1:"); got != terminal {
			t.Errorf("terminal: %v, said %q", terminal, e.Err)
		}
	}
}

// Without a configuration, the demo is served if a person sees it: with HTTP, on a terminal.
func TestServeDemoOnTerminal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		terminal bool
		args     []string
		want     string
		code     int
	}{
		{"terminal", true, []string{"serve", "--listen", "127.0.0.1:0"}, "mcp.json here: serving the built-in demo\nlistening on ", exitOK},
		{"no terminal", false, []string{"serve", "--listen", "127.0.0.1:0"}, "mcp.json here; name the file with --config, or use --demo", exitFailed},
		{"stdio", true, []string{"serve", "--stdio", "--listen", "127.0.0.1:0"}, "mcp.json here: serving no tools; name the file with --config\n", exitOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			e.Terminal = func(any) bool { return tt.terminal }
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if code := runCommand(ctx, e, tt.args...); code != tt.code || !strings.Contains(e.Err.String(), tt.want) {
				t.Errorf("exit code %d, said %q, want %d and %q", code, e.Err, tt.code, tt.want)
			}
		})
	}
}

// A legacy client on stdio waits for each response, and ends by closing its side.
func TestServeOneLegacyClient(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	stdin, toGateway := io.Pipe()
	fromGateway, stdout := io.Pipe()
	e.Stdin, e.Stdout = stdin, stdout
	code := make(chan int, 1)
	go func() {
		code <- runCommand(t.Context(), e, "serve", "--stdio", "--demo")
		stdout.Close()
	}()
	answers := bufio.NewScanner(fromGateway)
	for _, tt := range []struct{ say, want string }{
		{`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"`},
		{`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, `{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"echo"`},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hi"}]}}`},
	} {
		if _, err := io.WriteString(toGateway, tt.say+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := answerIn(answers); !strings.HasPrefix(got, tt.want) {
			t.Errorf("said %s\ngot  %s\nwant %s", tt.say, got, tt.want)
		}
	}
	toGateway.Close()
	if rest := answerIn(answers); rest != "" {
		t.Errorf("and then %s", rest)
	}
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, e.Err)
	}
}

// answerIn returns the next line that is not a notification, or "" at the end.
func answerIn(lines *bufio.Scanner) string {
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"id":`) {
			return lines.Text()
		}
	}
	return ""
}

func TestServeReloadsOnHangup(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	r, w := io.Pipe()
	defer w.Close()
	e.Stdin = r
	e.Arrived <- syscall.SIGHUP
	e.Arrived <- os.Interrupt
	if code := runCommand(t.Context(), e, "serve", "--stdio", "--demo"); code != exitOK {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
	if !strings.Contains(e.Err.String(), "nothing to reload: the demo has no configuration file") {
		t.Errorf("said %q", e.Err)
	}
}

func TestLogFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, log, want, not string }{
		{"text", `{}`, "level=INFO msg=\"shutting down", "{"},
		{"json", `{format: json}`, `"level":"INFO","msg":"shutting down`, "level="},
		{"only errors", `{level: error}`, "", "shutting down"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\nlog: "+tt.log+"\n")
			if code := runCommand(t.Context(), e, "serve", "--stdio"); code != exitOK {
				t.Errorf("exit code %d: %s", code, e.Err)
			}
			if got := e.Err.String(); !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
				t.Errorf("logged %q, want %q and not %q", got, tt.want, tt.not)
			}
		})
	}
}
