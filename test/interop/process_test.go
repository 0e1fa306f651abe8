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

// process is a running server.
type process struct {
	url  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is how, and log its last words
	err  error
	log  []string
}

// maxLog is how many of the last lines a process said are kept.
const maxLog = 100

// startListening starts a server that prints "listening on URL" on standard
// error. The server is ended with the test, unless it has ended before: first its
// standard input is closed, then it is killed.
func startListening(t *testing.T, command string, args ...string) *process {
	t.Helper()
	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{cmd: inGroup(exec.CommandContext(ctx, command, args...)), done: make(chan struct{})}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", command, err)
	}
	url := make(chan string, 1)
	// The cleanup waits for this one; it ends when the process has ended.
	go func() {
		defer close(p.done)
		p.log = drain(stderr, url)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		stdin.Close()
		timer := time.AfterFunc(stopGrace, kill)
		<-p.done
		timer.Stop()
		kill()
		if t.Failed() {
			t.Logf("the last words of %s:\n%s", filepath.Base(command), strings.Join(p.log, "\n"))
		}
	})
	u, ok := <-url
	if !ok {
		t.Fatalf("%s ended before it was listening", filepath.Base(command))
	}
	p.url = u
	return p
}

// drain reads to the end, reports the URL of the first line that has one, and
// returns the last lines.
func drain(stderr io.Reader, url chan<- string) []string {
	defer close(url)
	var last []string
	lines := bufio.NewScanner(stderr)
	found := false
	for lines.Scan() {
		u, ok := strings.CutPrefix(lines.Text(), "listening on ")
		if ok && !found {
			found = true
			url <- u
		}
		last = append(last, lines.Text())
		last = last[max(0, len(last)-maxLog):]
	}
	return last
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
