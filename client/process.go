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

	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Command is a server that is started as a child process and spoken to over its
// standard streams.
//
// It is over when the process ends that was started: what that has left behind in
// its process group is killed at once. So a wrapper has to stay for as long as the
// server that it starts, or to become it (exec); one that puts the server into the
// background and ends has ended the server. A daemon that has made itself a session
// of its own is left alone, and not listened to.
type Command struct {
	Path string   // as for os/exec: a path, or a name to be found in PATH
	Args []string // without the name
	Dir  string   // "" is ours

	// Env are variables in the form "KEY=value" that the child gets besides the
	// few of ours that every program needs. Nothing else of our environment
	// reaches it.
	Env []string
}

// NewCommand returns a client of a server that is a child process. A modern
// server is one process; a legacy one is a process for each session. Each is in a
// process group of its own and ends with this process.
func NewCommand(cmd Command, cfg Config) *Client {
	s := newSetup(cfg)
	s.secrets = redact.New(nil, cmd.Env)
	l := &launcher{setup: s, cmd: cmd, backoff: newCrashBackoff()}
	connect := func(ctx context.Context) (transportConn, error) { return l.start(ctx) }
	return newClient(s, newPipeLink(s, connect, l.quit))
}

// launcher starts the children of one client.
type launcher struct {
	*setup
	cmd     Command
	backoff *crashBackoff
	spawner spawner

	guardian guardian
}

// start starts a child, unless too many have died lately.
func (l *launcher) start(ctx context.Context) (*child, error) {
	wait, err := l.backoff.admit(time.Now())
	if err != nil {
		return nil, l.unavailable(errors.Join(errNoRetry, err), "%v", err)
	}
	if wait > 0 && !pause(ctx, wait) {
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

// spawn starts the process, with pipes of our own so that nothing but us decides
// when they are closed.
//
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: the process outlives the request that needed it
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
	go c.reap()        // ends when the process does; end waits for it
	go c.drainStderr() // ends at the end of standard error, which reap brings about; end waits for it
	return c, nil
}

// quit comes after the last child: the guardian ends where nothing is left to guard,
// and the thread that started the children may go only when they have.
func (l *launcher) quit() {
	l.guardian.stop()
	l.spawner.stop()
}

// pipes are the standard streams of a child, both ends.
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
	exited   chan struct{} // closed when the process has ended and been reaped
	drained  chan struct{} // closed when standard error is at its end
	endOnce  sync.Once     // done first by whoever ends it: us, or it
	why      string        // we end it, for the log; set by wanted
}

// Read reads the child's standard output.
func (c *child) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write writes to the child's standard input.
func (c *child) Write(p []byte) (int, error) { return c.in.Write(p) }

// reap waits for the process, and leaves nobody behind who could keep its calls
// waiting for an answer. What it wrote before its end is still read: the answer to a
// call, often, or the reason of the end.
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

// fateTime is how long each of the two may take that are to be known of a process
// whose output has ended: its end, and its last words. On a busy machine the kernel
// lets somebody else have its turn in between, more than once.
const exitWait = 2 * time.Second

// fate waits a moment for the process to end, and says how it did. The end of its
// output is seen before its end is: without the moment an error would say that the
// output was closed, and not why.
//
// Its last words are for nobody but the one client that it has served: they may be
// about a request, with its arguments. Those of a child that has served none yet are
// for whoever asks while it is not started again.
func (c *child) exitReason(served clientCount) string {
	c.endOnce.Do(c.died) // whoever ends it from now on does not do so first
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

// obituary says how the process ended, with its last words and without.
func (c *child) exitTexts() (open, closed string) {
	text := "its process ended: " + exitText(c.cmd, nil)
	lines := c.stderr.lines()
	if len(lines) == 0 {
		return text, text
	}
	return text + "; its last words: " + strings.Join(lines, " | "), text + "; see the log for its last words"
}

// exitText prefers the status that the kernel gave to the error that Wait made of it.
func exitText(cmd *exec.Cmd, err error) string {
	if cmd.ProcessState != nil {
		return cmd.ProcessState.String()
	}
	return fmt.Sprint(err)
}

// end makes the process end: its input is closed, then its group is asked to
// end, then killed (2026-07-28, basic/transports/stdio, "Shutdown").
func (c *child) end(why string) {
	c.endOnce.Do(func() { c.why = why })
	c.in.Close()
	if !c.exitsWithin(c.Stop) {
		terminateGroup(c.cmd.Process.Pid)
		if !c.exitsWithin(c.Stop) && isClosed(c.hurried) {
			within(c.exited, min(c.Stop, hurryTime))
		}
	}
	// What the child has started and left behind goes too.
	killGroup(c.cmd.Process.Pid)
	<-c.exited
	<-c.drained
	c.launcher.guardian.forget(c.cmd.Process.Pid)
	closeFiles(c.out.file, c.err.file)
}

// hurryTime is what a process that was asked to end has left to do so when the client is
// in a hurry.
const hurryTime = 200 * time.Millisecond

// exitsWithin waits for the process to end, until d is over or the client is in a hurry.
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

// environment returns what a child gets of our variables, which is what a
// program needs to find its way, and the configured ones.
func environment(ours, configured []string) []string {
	var env []string
	for _, kv := range ours {
		key, value, _ := strings.Cut(kv, "=")
		// A value that begins so is a shell function.
		if slices.Contains(inherited(), strings.ToUpper(key)) && !strings.HasPrefix(value, "()") {
			env = append(env, kv)
		}
	}
	return append(env, configured...)
}

// inherited are names that hold no secrets by their meaning. A list of what is kept
// out would have to know every secret there is.
func inherited() []string {
	return []string{
		"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TMP", "TEMP",
		"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
		// Windows.
		"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA",
		"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "COMSPEC",
	}
}
