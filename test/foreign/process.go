// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// StopGrace is how long a process may take to end after it was asked to.
const StopGrace = 5 * time.Second

// BuildGo builds a command of the module in dir and returns its path, which
// lasts as long as the test.
func BuildGo(t testing.TB, dir, pkg string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, pkg) //nolint:gosec // which program is the word of a test
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
	cmd.WaitDelay = StopGrace
	return cmd
}

// Process is a running server. What it has may be read at any time, but Err and
// Log only after Done is closed.
type Process struct {
	// URL is where it listens.
	URL string
	// Done is closed when it has ended.
	Done chan struct{}
	// Err is how it ended.
	Err error
	// Log is the last that it said, by lines.
	Log []string

	cmd *exec.Cmd
}

// Signal sends it a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// maxLog is how many of the last lines a process said are kept.
const maxLog = 100

// Start starts a server that prints "listening on URL" on one of its outputs,
// and returns when it has. The server is ended with the test, unless it has ended
// before: first its standard input is closed, then it is killed.
func Start(t testing.TB, command string, args ...string) *Process {
	t.Helper()
	p := start(t, "listening on ", command, args...)
	u, ok := <-p.said
	if !ok {
		t.Fatalf("%s ended before it was listening", filepath.Base(command))
	}
	p.URL = u
	return p.Process
}

// StartAt is Start for a server that is told where to listen and does not say
// when it does: the address, HOST:PORT, is tried until somebody is there.
func StartAt(t testing.TB, address, command string, args ...string) *Process {
	t.Helper()
	p := start(t, "", command, args...)
	// Before the cleanup of start, which such a server may not mind.
	t.Cleanup(func() { _ = p.Signal(syscall.SIGTERM) }) // it may have ended
	for {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			conn.Close()
			return p.Process
		}
		select {
		case <-p.Done:
			t.Fatalf("%s ended before it was listening: %v", filepath.Base(command), p.Err)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(dialPause):
		}
	}
}

// dialPause is between two attempts to reach a server that is starting.
const dialPause = 10 * time.Millisecond

// FreeAddress is an address of this machine that nobody listens at now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l := listen(t)
	defer l.Close()
	return l.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// started is a process of which the first line that is looked for, without its
// beginning, will be said. The channel is closed at the end of its output.
type started struct {
	*Process
	said <-chan string
}

func start(t testing.TB, prefix, command string, args ...string) started {
	t.Helper()
	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Process{cmd: inGroup(exec.CommandContext(ctx, command, args...)), Done: make(chan struct{})} //nolint:gosec // which program is the word of a test
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// One pipe for both, so that the lines are in order.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		t.Fatalf("start %s: %v", command, err)
	}
	said := make(chan string, 1)
	// The cleanup waits for this one; it ends when the process has ended and
	// nobody has its output any more.
	go func() {
		defer close(p.Done)
		defer r.Close()
		p.Log = drain(r, prefix, said)
		p.Err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		stdin.Close()
		timer := time.AfterFunc(StopGrace, kill)
		<-p.Done
		timer.Stop()
		kill()
		if t.Failed() {
			t.Logf("the last words of %s:\n%s", filepath.Base(command), strings.Join(p.Log, "\n"))
		}
	})
	return started{p, said}
}

// drain reads to the end, reports the rest of the first line that begins with
// prefix, and returns the last lines.
func drain(output io.Reader, prefix string, said chan<- string) []string {
	defer close(said)
	var last []string
	lines := bufio.NewScanner(output)
	found := false
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), prefix)
		if ok && !found {
			found = true
			said <- rest
		}
		last = append(last, lines.Text())
		last = last[max(0, len(last)-maxLog):]
	}
	// Behind a line that is too long: nobody may wait for a reader.
	_, _ = io.Copy(io.Discard, output)
	return last
}

// Output runs a command to its end, with more environment than ours, and returns
// what it printed. The end of ctx ends it, and what it started.
func Output(ctx context.Context, stdin []byte, env []string, command string, args ...string) (stdout, stderr []byte, err error) {
	cmd := inGroup(exec.CommandContext(ctx, command, args...)) //nolint:gosec // which program is the word of a test
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	err = cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return out.Bytes(), errs.Bytes(), err
}
