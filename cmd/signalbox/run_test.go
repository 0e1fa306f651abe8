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
			e := newTestEnv(t, "")
			if got := e.run(t.Context(), tt.args...); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
			if got := e.err.String(); !strings.HasPrefix(got, tt.said) || tt.said == "" && got != "" {
				t.Errorf("said %q, want %q", got, tt.said)
			}
		})
	}
}

// Every line of a server's message has the prefix of the command, so that it is not mistaken
// for a line of the shell or of another program.
func TestPrintErrorMarksEachLine(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	e.printError("one\r\n\x1b[1mtwo\n")
	if got, want := e.err.String(), "signalbox: one\nsignalbox: \\x1b[1mtwo\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInterruptible(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	ctx, done := e.interruptible(t.Context())
	e.signals <- syscall.SIGTERM
	<-ctx.Done()
	done()
	ctx, done = e.interruptible(t.Context())
	done()
	if ctx.Err() == nil {
		t.Error("the context goes on")
	}
}

// A gateway in the process of its caller, as a program that embeds the command uses it. It
// leaves no goroutines.
func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	r, w := io.Pipe() // a client that sends nothing
	defer w.Close()
	e.Stdin = r
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := e.run(ctx, "serve", "--stdio", "--listen", "127.0.0.1:0"); code != exitOK {
		t.Errorf("exit code %d: %s", code, e.err)
	}
	if !strings.Contains(e.err.String(), "listening on http://127.0.0.1:") {
		t.Errorf("said %q", e.err)
	}
}

// On a terminal, serve prints how to use it from a client, also with a configuration.
func TestServePrintsTheLineForClients(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{false, true} {
		e := newTestEnv(t, "")
		e.Terminal = func(any) bool { return terminal }
		write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code := e.run(ctx, "serve", "--listen", "127.0.0.1:0"); code != exitOK {
			t.Errorf("exit code %d: %s", code, e.err)
		}
		if got := strings.Contains(e.err.String(), "claude mcp add --transport http signalbox http://127.0.0.1:"); got != terminal {
			t.Errorf("terminal: %v, said %q", terminal, e.err)
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
			e := newTestEnv(t, "")
			e.Terminal = func(any) bool { return tt.terminal }
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if code := e.run(ctx, tt.args...); code != tt.code || !strings.Contains(e.err.String(), tt.want) {
				t.Errorf("exit code %d, said %q, want %d and %q", code, e.err, tt.code, tt.want)
			}
		})
	}
}

// A legacy client on stdio waits for each response, and ends by closing its side.
func TestServeOneLegacyClient(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	stdin, toGateway := io.Pipe()
	fromGateway, stdout := io.Pipe()
	e.Stdin, e.Stdout = stdin, stdout
	code := make(chan int, 1)
	go func() {
		code <- e.run(t.Context(), "serve", "--stdio", "--demo")
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
		t.Errorf("exit code %d: %s", got, e.err)
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
	e := newTestEnv(t, "")
	r, w := io.Pipe()
	defer w.Close()
	e.Stdin = r
	e.signals <- syscall.SIGHUP
	e.signals <- os.Interrupt
	if code := e.run(t.Context(), "serve", "--stdio", "--demo"); code != exitOK {
		t.Errorf("exit code %d: %s", code, e.err)
	}
	if !strings.Contains(e.err.String(), "nothing to reload: the demo has no configuration file") {
		t.Errorf("said %q", e.err)
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
			e := newTestEnv(t, "")
			write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\nlog: "+tt.log+"\n")
			if code := e.run(t.Context(), "serve", "--stdio"); code != exitOK {
				t.Errorf("exit code %d: %s", code, e.err)
			}
			if got := e.err.String(); !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
				t.Errorf("logged %q, want %q and not %q", got, tt.want, tt.not)
			}
		})
	}
}

func TestIsTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, stream := range []any{null, r, w, strings.NewReader("")} {
		if osEnv().Terminal(stream) {
			t.Errorf("%T is a terminal", stream)
		}
	}
}
