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

// StopGrace is the time that a process has to exit before it is killed.
const StopGrace = 5 * time.Second

// BuildGo builds a command of the module in dir and returns its path. The binary is
// removed after the test.
func BuildGo(t testing.TB, dir, pkg string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, pkg) //nolint:gosec // the program is chosen by a test
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return bin
}

// inGroup runs cmd in a process group of its own. When its context ends, the whole
// group is killed, including the processes that cmd has started.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = StopGrace
	return cmd
}

// Process is a server process. Err and Log may be read only after Done is closed.
type Process struct {
	// URL is its address; empty after StartAt.
	URL string
	// Done is closed when the process has ended.
	Done chan struct{}
	// Err is the error of exec.Cmd.Wait.
	Err error
	// Log contains the last lines of its output.
	Log []string

	cmd *exec.Cmd
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// maxLog is the maximum number of lines in Log.
const maxLog = 100

// Start starts a server and returns after the server has printed "listening on URL"
// on its standard output or error. A server that still runs at the end of the test is
// stopped: its standard input is closed, and after StopGrace it is killed.
func Start(t testing.TB, command string, args ...string) *Process {
	t.Helper()
	return StartTo(t, io.Discard, command, args...)
}

// StartTo is like Start, and writes the whole output to out, before Done is closed.
func StartTo(t testing.TB, out io.Writer, command string, args ...string) *Process {
	t.Helper()
	p := start(t, out, "listening on ", command, args...)
	u, ok := <-p.address
	if !ok {
		t.Fatalf("%s ended before it was listening", filepath.Base(command))
	}
	p.URL = u
	return p.Process
}

// StartAt is like Start, for a server that does not print its address. It returns when
// a connection to address, HOST:PORT, succeeds.
func StartAt(t testing.TB, address, command string, args ...string) *Process {
	t.Helper()
	p := start(t, io.Discard, "", command, args...)
	// Runs before the cleanup of start: the server may ignore the end of its input.
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

// dialPause is the time between two attempts of StartAt to connect.
const dialPause = 10 * time.Millisecond

// FreeAddress returns an address on loopback that is not in use.
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

// started is a process with the channel that receives the rest of the first line with
// the prefix. The channel is closed at the end of the output.
type started struct {
	*Process
	address <-chan string
}

func start(t testing.TB, out io.Writer, prefix, command string, args ...string) started {
	t.Helper()
	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Process{cmd: inGroup(exec.CommandContext(ctx, command, args...)), Done: make(chan struct{})} //nolint:gosec // the program is chosen by a test
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
	address := make(chan string, 1)
	// Ends when the process has ended and no other process has its output open. The
	// cleanup waits for it.
	go func() {
		defer close(p.Done)
		defer r.Close()
		p.Log = drain(io.TeeReader(r, out), prefix, address)
		p.Err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		stdin.Close()
		timer := time.AfterFunc(StopGrace, kill)
		<-p.Done
		timer.Stop()
		kill()
		if t.Failed() {
			t.Logf("the last lines of %s:\n%s", filepath.Base(command), strings.Join(p.Log, "\n"))
		}
	})
	return started{p, address}
}

// drain reads output to its end and returns the last lines. It sends the rest of the
// first line that begins with prefix to found, and closes found.
func drain(output io.Reader, prefix string, found chan<- string) []string {
	defer close(found)
	var last []string
	lines := bufio.NewScanner(output)
	sent := false
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), prefix)
		if ok && !sent {
			sent = true
			found <- rest
		}
		last = append(last, lines.Text())
		last = last[max(0, len(last)-maxLog):]
	}
	// The scanner stops at a line that is too long. The process must not block in a write.
	_, _ = io.Copy(io.Discard, output)
	return last
}

// Output runs a command with env added to the environment, and returns its output.
// When ctx ends, the command and the processes that it has started are killed.
func Output(ctx context.Context, stdin []byte, env []string, command string, args ...string) (stdout, stderr []byte, err error) {
	cmd := inGroup(exec.CommandContext(ctx, command, args...)) //nolint:gosec // the program is chosen by a test
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
	err = cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return out.Bytes(), errs.Bytes(), err
}
