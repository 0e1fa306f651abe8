// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stopGrace is how long a process may take to end after it was asked to.
const stopGrace = 5 * time.Second

// buildGo builds a command of the module in dir and returns its path.
func buildGo(t *testing.T, dir, pkg string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return bin
}

// inGroup gives cmd a process group of its own, and makes the end of its
// context end the whole group: what it started, too.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = stopGrace
	return cmd
}

// startListening starts a server that prints "listening on URL" on standard
// error, and returns the URL. The server is ended with the test: first its
// standard input is closed, then it is killed.
func startListening(t *testing.T, command string, args ...string) string {
	t.Helper()
	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := inGroup(exec.CommandContext(ctx, command, args...))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", command, err)
	}
	url := make(chan string, 1)
	done := make(chan error, 1)
	// The cleanup waits for this one; it ends when the process has ended.
	go func() {
		drain(stderr, url)
		done <- cmd.Wait()
	}()
	t.Cleanup(func() {
		stdin.Close()
		timer := time.AfterFunc(stopGrace, kill)
		<-done
		timer.Stop()
		kill()
	})
	u, ok := <-url
	if !ok {
		t.Fatalf("%s ended before it was listening", filepath.Base(command))
	}
	return u
}

// drain reads to the end, and reports the URL of the first line that has one.
func drain(stderr io.Reader, url chan<- string) {
	defer close(url)
	lines := bufio.NewScanner(stderr)
	found := false
	for lines.Scan() {
		u, ok := strings.CutPrefix(lines.Text(), "listening on ")
		if ok && !found {
			found = true
			url <- u
		}
	}
}

// output runs a command to its end and returns what it printed.
func output(ctx context.Context, stdin []byte, env []string, command string, args ...string) (stdout, stderr []byte, err error) {
	cmd := inGroup(exec.CommandContext(ctx, command, args...))
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	err = cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return out.Bytes(), errs.Bytes(), err
}
