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
)

// command returns signalbox as a process of its own, in an empty folder.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "signalbox", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), noExitDelay)
	return cmd
}

// alive reports whether a gateway answers.
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

// As in "signalbox serve 2>&1 | head -1", or with a log collector that died: a
// gateway whose log nobody reads any more goes on serving.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	cmd := command(t, "serve", "--listen", "127.0.0.1:0")
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
	// Each of these has something to say, and finds nobody to say it to.
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

// A client on stdio that no longer reads has gone: the gateway ends, and in
// order, as it would at the end of its input.
func TestServeEndsWithTheReaderOfItsAnswers(t *testing.T) {
	t.Parallel()
	cmd := command(t, "serve", "--stdio")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said lockedBuffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	// More than one answer: another test that starts a process just now has what we
	// closed for a moment longer. Ends with the command, whose pipe Wait closes.
	go func() {
		ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
		for err := error(nil); err == nil; {
			_, err = stdin.Write(ping)
		}
	}()
	err = cmd.Wait() // stdin stays open: it is not its end that ends the command
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != exitFailed {
		t.Errorf("ended with %v, want exit code 1: %s", err, said.String())
	}
	if text := said.String(); !strings.Contains(text, "shutting down") || !strings.Contains(text, "broken pipe") {
		t.Errorf("said %q, want an end in order, and why", text)
	}
}

// As in "signalbox completion bash | head -1": the reader has what it wanted, and
// the command ends without a word, as commands of a shell do.
func TestCommandEndsWithTheReaderOfItsOutput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"tools"}, {"tools", "--json"}, {"version"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			cmd := command(t, args...)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			var said lockedBuffer
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
			// That it is the demo is said before there is any output.
			lines := strings.SplitAfter(said.String(), "\n")
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasSuffix(line, "here: using the built-in demo\n") })
			if got := strings.Join(lines, ""); got != "" {
				t.Errorf("said %q", got)
			}
		})
	}
}
