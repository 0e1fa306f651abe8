// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Command is a server that is started as a child process and uses its standard input
// and output.
//
// The server ends with the process that was started: what that process leaves behind in
// its process group is killed at once. A wrapper must therefore run for as long as the
// server that it starts, or replace itself by it (exec). A daemon in a session of its
// own is neither killed nor used.
type Command struct {
	Path string   // as for os/exec: a path, or a name to look up in PATH
	Args []string // without the program name
	Dir  string   // "" means the current directory

	// Env holds variables in the form "KEY=value" for the child, in addition to the few
	// variables of this process that every program needs. The child gets no other
	// variables.
	Env []string
}

// NewCommand returns a client of a server that runs as a child process. A modern server
// is one process, a legacy one a process per session. Each process has a process group
// of its own and ends with this process.
func NewCommand(cmd Command, cfg Config) *Client {
	s := newSetup(cfg)
	s.secrets = redact.New(nil, cmd.Env)
	l := newLauncher(s, cmd)
	connect := func(ctx context.Context) (transportConn, error) { return l.start(ctx) }
	return newClient(s, newPipeLink(s, connect, l.quit))
}

// launcher starts the child processes of one client. It must be stopped after the last
// of them has ended.
type launcher struct {
	*setup
	cmd     Command
	backoff *crashBackoff
	spawner spawner

	guardian guardian
}

func newLauncher(s *setup, cmd Command) *launcher {
	return &launcher{setup: s, cmd: cmd, backoff: newCrashBackoff()}
}

// start starts a child, unless too many have exited recently.
func (l *launcher) start(ctx context.Context) (*child, error) {
	wait, err := l.backoff.admit(time.Now())
	if err != nil {
		return nil, l.unavailable(errors.Join(errNoRetry, err), "%v", err)
	}
	if wait > 0 && !backoff.Sleep(ctx, wait) {
		return nil, l.givenUp(ctx, mcp.NotDispatched)
	}
	c, err := l.spawn()
	if err != nil {
		reason := startFailure(&l.cmd, err)
		l.backoff.failed(time.Now(), reason)
		return nil, l.unavailable(errors.Join(errNoRetry, err), "%s", reason)
	}
	return c, nil
}

// spawn starts the process with pipes of its own. The pipes of os/exec would be closed
// by Wait, before all output is read.
//
//nolint:contextcheck,nolintlint // contextcheck reports here for all callers: the process outlives the request that starts it
func (l *launcher) spawn() (*child, error) {
	var p pipes
	if err := p.open(); err != nil {
		p.closeAll()
		return nil, err
	}
	cmd := exec.Command(l.cmd.Path, l.cmd.Args...) //nolint:gosec,noctx // the operator's own command; it outlives the request that starts it
	cmd.Dir = l.cmd.Dir
	cmd.Env = environment(os.Environ(), l.cmd.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.inR, p.outW, p.errW
	ownGroup(cmd)
	err := l.spawner.start(cmd)
	p.closeTheirs()
	if err != nil {
		p.closeAll()
		return nil, err
	}
	c := &child{
		setup: l.setup, launcher: l, cmd: cmd, in: p.inW, out: &output{file: p.outR}, err: &output{file: p.errR},
		exited: make(chan struct{}), drained: make(chan struct{}),
	}
	l.guardian.watch(cmd.Process.Pid, l.spawner.start)
	c.log.LogAttrs(context.Background(), l.ProcessLevel, "backend process started", slog.Int("pid", cmd.Process.Pid))
	go c.reap()        // ends with the process; end waits for it
	go c.drainStderr() // ends at the end of standard error, which reap causes; end waits for it
	return c, nil
}

// quit runs after the last child has ended: then the guardian has nothing to guard, and
// the thread that started the children may end.
func (l *launcher) quit() {
	l.guardian.stop()
	l.spawner.stop()
}

// pipes holds both ends of a child's standard streams.
type pipes struct {
	inR, inW, outR, outW, errR, errW *os.File
}

func (p *pipes) open() (err error) {
	if p.inR, p.inW, err = os.Pipe(); err != nil {
		return err
	}
	if p.outR, p.outW, err = os.Pipe(); err != nil {
		return err
	}
	p.errR, p.errW, err = os.Pipe()
	return err
}

func (p *pipes) closeTheirs() { closeFiles(p.inR, p.outW, p.errW) }

func (p *pipes) closeAll() { closeFiles(p.inR, p.inW, p.outR, p.outW, p.errR, p.errW) }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// child is a running server process.
type child struct {
	*setup
	launcher *launcher
	cmd      *exec.Cmd
	in       *os.File
	out, err *output
	stderr   stderrTail
	exited   chan struct{} // closed when the process has ended and was waited for
	drained  chan struct{} // closed at the end of standard error
	endOnce  sync.Once     // used first by what ends the child: end, or its own exit
	why      string        // why end was called, for the log; set by endOnce
}

// Read reads from the child's standard output.
func (c *child) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write writes to the child's standard input.
func (c *child) Write(p []byte) (int, error) { return c.in.Write(p) }

// reap waits for the process and then kills its group, so that no process left behind
// keeps its pipes open. What the child wrote before its exit is still read: it is often
// a response, or the reason for the exit.
func (c *child) reap() {
	defer close(c.exited)
	err := c.cmd.Wait()
	c.endOnce.Do(c.died)
	attrs := []slog.Attr{slog.String("status", exitText(c.cmd, err))}
	if c.why != "" {
		attrs = append(attrs, slog.String("reason", c.why))
	}
	c.log.LogAttrs(context.Background(), c.ProcessLevel, "backend process ended", attrs...)
	killGroup(c.cmd.Process.Pid)
	c.out.stopAtEnd()
	c.err.stopAtEnd()
}

func (c *child) died() { c.launcher.backoff.died(time.Now()) }

func (c *child) drainStderr() {
	defer close(c.drained)
	c.stderr.drain(c.err, c.MaxLogLine, c.secrets, c.log, c.ProcessLevel)
}

// exitWait limits the wait for the exit of a process after the end of its output, and
// for the end of its standard error. On a busy machine the kernel may schedule other
// processes in between.
const exitWait = 2 * time.Second

// exitReason waits briefly for the process to end and returns how it ended. The end of
// its output is seen before its exit. Without the wait, errors would report only the
// closed output.
//
// The last lines on stderr may be about a request and contain its arguments. So they
// are returned only if a single client was served, which gets the error. If none was
// served, they also appear in the errors while the child is not restarted.
func (c *child) exitReason(served clientCount) string {
	c.endOnce.Do(c.died) // a later end does not count as the first
	if !within(c.exited, exitWait) {
		return "it closed its output"
	}
	within(c.drained, exitWait)
	open, closed := c.exitTexts()
	if served == severalClients {
		open = closed
	}
	if served == noClient {
		closed = open
	}
	c.launcher.backoff.explain(closed)
	return open
}

// exitTexts describes how the process ended, with its last lines on stderr and without.
func (c *child) exitTexts() (open, closed string) {
	text := "its process ended: " + exitText(c.cmd, nil)
	lines := c.stderr.lines()
	if len(lines) == 0 {
		return text, text
	}
	return text + "; its last lines on stderr: " + strings.Join(lines, " | "), text + "; see the log for its last lines on stderr"
}

// exitText returns the kernel's status if there is one, rather than Wait's error.
func exitText(cmd *exec.Cmd, err error) string {
	if cmd.ProcessState != nil {
		return cmd.ProcessState.String()
	}
	return fmt.Sprint(err)
}

// end ends the process: it closes its input, then asks its process group to terminate,
// then kills it (2026-07-28, basic/transports/stdio, "Shutdown").
func (c *child) end(why string) {
	c.endOnce.Do(func() { c.why = why })
	c.in.Close()
	if !c.exitsWithin(c.Stop) {
		terminateGroup(c.cmd.Process.Pid)
		if !c.exitsWithin(c.Stop) && isClosed(c.hurried) {
			within(c.exited, min(c.Stop, hurryTime))
		}
	}
	// This also kills what the child has started and left behind.
	killGroup(c.cmd.Process.Pid)
	<-c.exited
	<-c.drained
	c.launcher.guardian.forget(c.cmd.Process.Pid)
	closeFiles(c.out.file, c.err.file)
}

// hurryTime is how long a process may take to terminate if the client must close at
// once.
const hurryTime = 200 * time.Millisecond

// exitsWithin waits for the process to end, up to d, or until the client must close at
// once.
func (c *child) exitsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	case <-c.hurried:
		return isClosed(c.exited)
	}
}

func within(ch <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
		return false
	}
}

// environment returns the variables of a child: those of ours that any program needs,
// and the configured ones.
func environment(ours, configured []string) []string {
	var env []string
	for _, kv := range ours {
		key, value, _ := strings.Cut(kv, "=")
		// A value with this prefix is a shell function.
		if slices.Contains(inherited(), strings.ToUpper(key)) && !strings.HasPrefix(value, "()") {
			env = append(env, kv)
		}
	}
	return append(env, configured...)
}

// inherited returns the names of variables that hold no secrets. The opposite, a list
// of secret ones, could never be complete.
func inherited() []string {
	return []string{
		"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TMP", "TEMP",
		"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
		// Windows.
		"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA",
		"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "COMSPEC",
	}
}
