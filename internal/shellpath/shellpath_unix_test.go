// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package shellpath

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// script writes a shell that notes its start in a file, and then does what the text says.
func script(t *testing.T, text string) (shell, starts string) {
	t.Helper()
	dir := t.TempDir()
	shell, starts = filepath.Join(dir, "shell"), filepath.Join(dir, "starts")
	text = fmt.Sprintf("#!/bin/sh\necho started \"$1\" >>%s\n%s\n", starts, text)
	if err := os.WriteFile(shell, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return shell, starts
}

func TestPathStartsTheShellOnce(t *testing.T) {
	shell, starts := script(t, `echo Welcome; PATH=/tools:/bin; eval "$2"`)
	s := New(shell)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if got, want := s.Path(t.Context()), "/tools:/bin"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	all.Wait()
	if log, err := os.ReadFile(starts); err != nil || string(log) != "started -lic\n" {
		t.Errorf("%q, %v; want one start", log, err)
	}
}

// What else the files of the user print or leave behind does not count.
func TestPathAmongOtherOutput(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"before":          `printf 'Welcome\033]0;title\007'; PATH=/tools:/bin; eval "$2"`,
		"after":           `PATH=/tools:/bin; eval "$2"; printf '\033[H\033[2JBye\n'`,
		"a failed end":    `PATH=/tools:/bin; eval "$2"; exit 1`,
		"left behind":     `sleep 60 & PATH=/tools:/bin; eval "$2"`,
		"does not end":    `PATH=/tools:/bin; eval "$2"; sleep 60`,
		"other than ours": `echo signalbox-path; PATH=/tools:/bin; eval "$2"; echo :signalbox-end`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shell, _ := script(t, text)
			if got, want := New(shell).Path(t.Context()), "/tools:/bin"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A shell that prints without end is ended soon, and its output is not kept.
func TestPathOfEndlessOutput(t *testing.T) {
	t.Parallel()
	shell, _ := script(t, `while :; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; done`)
	began := time.Now()
	if got := New(shell).Path(t.Context()); got != "" || time.Since(began) >= shellTime {
		t.Errorf("got %q after %v", got, time.Since(began))
	}
	o := &output{ended: make(chan struct{})}
	for range 3 {
		if n, err := o.Write(make([]byte, maxOutput)); n != maxOutput || err != nil || len(o.text) != maxOutput {
			t.Errorf("wrote %d, %v; kept %d", n, err, len(o.text))
		}
	}
}

// A shell that fails is not started again, but one whose caller gave up is.
func TestPathOfNoShell(t *testing.T) {
	failing, starts := script(t, `exit 1`)
	for _, program := range []string{"", "sh", "/no/such/shell", failing} {
		s := New(program)
		for range 2 {
			if got := s.Path(t.Context()); got != "" {
				t.Errorf("%q: got %q", program, got)
			}
		}
	}
	if log, _ := os.ReadFile(starts); strings.Count(string(log), "started") != 1 {
		t.Errorf("the failing shell noted %q, want one start", log)
	}

	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	waiting, _ := script(t, fmt.Sprintf("echo >%s; PATH=/tools; eval \"$2\"", pipe)) // until the pipe is read
	s := New(waiting)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.Path(ctx); got != "" {
		t.Errorf("got %q after the end of the context", got)
	}
	go func() { _, _ = os.ReadFile(pipe) }() // ends with the second start
	if got, want := s.Path(t.Context()), "/tools"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFind(t *testing.T) {
	shell, _ := script(t, "")
	dir := filepath.Dir(shell)
	path := strings.Join([]string{".", "", "/no/such/folder", dir}, ":")
	if got := Find(path, "shell"); got != shell {
		t.Errorf("got %q, want %q", got, shell)
	}
	if got := Find(path, "starts"); got != "" {
		t.Errorf("found %q, which cannot be executed", got)
	}
	if got := Find("", "sh"); got != "" {
		t.Errorf("found %q in no folder", got)
	}
}

func TestJoin(t *testing.T) {
	if got, want := Join("/a:/b:", "/b::/c:/a"), "/a:/b:/c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
