// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// programCommand returns signalbox as a separate process, in an empty folder.
func programCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandtest.Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "signalbox", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), commandtest.NoExitDelay)
	return cmd
}

// alive reports whether a gateway responds.
func alive(t *testing.T, base string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/healthz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// A gateway continues if the reader of its log has ended, as in "signalbox serve 2>&1 | head
// -1", or with a crashed log collector.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	cmd := programCommand(t, "serve", "--demo", "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	base := ""
	for lines := bufio.NewScanner(stderr); base == "" && lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			base = strings.TrimSuffix(url, "/mcp")
		}
	}
	stderr.Close()
	// Each of these logs something, which cannot be written.
	for range 3 {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if !alive(t, base) {
			t.Fatal("the gateway does not answer")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v, want exit code 0", err)
	}
}

// A client on stdio that no longer reads has left: the gateway shuts down as at the end of its
// input.
func TestServeEndsWithTheReaderOfItsAnswers(t *testing.T) {
	t.Parallel()
	cmd := programCommand(t, "serve", "--stdio")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said commandtest.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	// More than one response: a process that another test is just starting may hold the closed
	// pipe open for a moment. Ends with the command: Wait closes the pipe.
	go func() {
		ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
		for err := error(nil); err == nil; {
			_, err = stdin.Write(ping)
		}
	}()
	err = cmd.Wait() // stdin stays open, and is not what ends the command
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != exitFailed {
		t.Errorf("ended with %v, want exit code 1: %s", err, said.String())
	}
	if text := said.String(); !strings.Contains(text, "shutting down") || !strings.Contains(text, "broken pipe") {
		t.Errorf("said %q, want an end in order, and why", text)
	}
}

// If its reader ends, as in "signalbox completion bash | head -1", a command ends without a
// message, like other commands.
func TestCommandEndsWithTheReaderOfItsOutput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"tools"}, {"tools", "--json"}, {"version"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			cmd := programCommand(t, args...)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			var said commandtest.Buffer
			cmd.Stdout, cmd.Stderr = w, &said
			start := time.Now()
			err = cmd.Run()
			w.Close()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok {
				t.Fatalf("ended with %v", err)
			}
			status, ok := exit.Sys().(syscall.WaitStatus)
			if !ok || !status.Signaled() || status.Signal() != syscall.SIGPIPE {
				t.Errorf("ended with %v after %v, want SIGPIPE: %s", err, time.Since(start), said.String())
			}
			// The message about the demo is written before any output.
			lines := strings.SplitAfter(said.String(), "\n")
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasSuffix(line, "signalbox.yaml: using the built-in demo\n") })
			if got := strings.Join(lines, ""); got != "" {
				t.Errorf("said %q", got)
			}
		})
	}
}
