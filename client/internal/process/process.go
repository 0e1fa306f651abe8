// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process starts MCP servers as child processes, and ends them with their
// process groups: when the client closes, and when this process ends, however that
// happens. A server that keeps crashing is started again after growing delays.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Command has the fields of client.Command, which documents them.
type Command struct {
	Path string
	Args []string
	Dir  string
	Env  []string

	Memory int64
	Direct bool
}

// Launcher starts the child processes of one client. It must be stopped after the last
// of them has ended.
type Launcher struct {
	*call.Setup
	cmd      Command
	indirect atomic.Bool // Command.Direct has not worked
	told     sync.Once   // of a program in the PATH of the login shell
	backoff  crashBackoff
	children children

	memoryTick time.Duration // between two measurements; 0 is memoryTick
	spawner    spawner
	guardian   guardian
}

// NewLauncher returns a Launcher of the command.
func NewLauncher(s *call.Setup, cmd Command) *Launcher { return &Launcher{Setup: s, cmd: cmd} }

// Retry makes the next Start start a child, however often it has exited.
func (l *Launcher) Retry() { l.backoff.reset() }

// Start starts a child, unless too many have exited recently.
func (l *Launcher) Start(ctx context.Context) (*Child, error) {
	wait, refused := l.backoff.admit(time.Now())
	if refused != nil {
		return nil, l.notStarted(nil, refused)
	}
	if wait > 0 && !backoff.Sleep(ctx, wait) {
		return nil, l.GivenUp(ctx, mcp.NotDispatched)
	}
	cmd := l.located(ctx, l.direct())
	c, err := l.spawn(&cmd)
	if err != nil {
		why := startFailure(&cmd, err)
		l.backoff.failed(time.Now(), why)
		return nil, l.notStarted(err, why)
	}
	return c, nil
}

// notStarted is the failure of a request for which no child was started.
func (l *Launcher) notStarted(cause error, why *failure) *mcp.Fault {
	return call.Because(why.code, l.Unavailable(errors.Join(call.ErrNoRetry, cause), "%s", why.text))
}

// spawn starts the process with pipes of its own. The pipes of os/exec would be closed
// by Wait, before all output is read.
//
//nolint:contextcheck,nolintlint // contextcheck reports here for all callers: the process outlives the request that starts it
func (l *Launcher) spawn(command *Command) (*Child, error) {
	inR, inW, inErr := os.Pipe()
	outR, outW, outErr := os.Pipe()
	errR, errW, errErr := os.Pipe()
	cmd := exec.Command(command.Path, command.Args...) //nolint:gosec,noctx // the operator's own command; it outlives the request that starts it
	cmd.Dir = command.Dir
	cmd.Env = Environment(os.Environ(), command.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	ownGroup(cmd)
	quoteForBatch(cmd)
	err := cmp.Or(inErr, outErr, errErr)
	if err == nil {
		err = l.spawner.start(cmd)
	}
	closeAll(inR, outW, errW)
	if err != nil {
		closeAll(inW, outR, errR)
		return nil, err
	}
	c := &Child{
		Setup: l.Setup, launcher: l, cmd: cmd, in: inW, out: &output{file: outR}, err: &output{file: errR},
		exited: make(chan struct{}), drained: make(chan struct{}),
	}
	l.children.add(c, time.Now())
	if l.cmd.Memory > 0 && MeasuresMemory {
		go c.watchMemory() // ends with the process; End waits for its exit
	}
	l.Starts.Add(1)
	l.guardian.watch(cmd.Process.Pid, l.spawner.start)
	c.Log.LogAttrs(context.Background(), l.ProcessLevel, "backend process started", slog.Int("pid", cmd.Process.Pid))
	go c.reap() // ends with the process; End waits for it
	go func() { // ends at the end of standard error, which reap causes; End waits for it
		defer close(c.drained)
		c.stderr.drain(c.err, c.MaxLogLine, c.Secrets, c.Log, c.ProcessLevel)
	}()
	return c, nil
}

// closeAll closes files. Some may be nil.
func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Quit runs after the last child has ended: then the guardian has nothing to guard, and
// the thread that started the children may end.
func (l *Launcher) Quit() {
	l.guardian.stop()
	l.spawner.stop()
}

// Child is a running server process.
type Child struct {
	*call.Setup
	launcher *Launcher
	cmd      *exec.Cmd
	in       *os.File
	out, err *output
	stderr   stderrTail
	exited   chan struct{} // closed when the process has ended and was waited for
	drained  chan struct{} // closed at the end of standard error
	endOnce  sync.Once     // used first by what ends the child: end, or its own exit
	why      string        // why end was called, for the log; set by endOnce

	hurried atomic.Bool             // see Hurry
	spoke   atomic.Bool             // it has written to its output
	killed  atomic.Pointer[failure] // why the child was killed; nil if it was not
}

// Read reads from the child's standard output.
func (c *Child) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if n > 0 && !c.spoke.Load() {
		c.spoke.Store(true)
	}
	return n, err
}

// Write writes to the child's standard input.
func (c *Child) Write(p []byte) (int, error) { return c.in.Write(p) }

// reap waits for the process and then kills its group, so that no process left behind
// keeps its pipes open. What the child wrote before its exit is still read: it is often
// a response, or the reason for the exit.
func (c *Child) reap() {
	defer close(c.exited)
	err := c.cmd.Wait()
	c.endOnce.Do(c.died)
	attrs := []slog.Attr{slog.String("status", exitText(c.cmd, err))}
	if c.why != "" {
		attrs = append(attrs, slog.String("reason", c.why))
	}
	c.Log.LogAttrs(context.Background(), c.ProcessLevel, "backend process ended", attrs...)
	if c.why == "" && c.killed.Load() == nil && groupRuns(c.cmd.Process.Pid) {
		c.Log.LogAttrs(context.Background(), slog.LevelWarn, "backend process left others behind, which are ended now",
			slog.Int("pid", c.cmd.Process.Pid), slog.String("code", code.ChildLeft))
	}
	killGroup(c.cmd.Process.Pid)
	c.launcher.children.remove(c)
	c.out.stopAtEnd()
	c.err.stopAtEnd()
}

func (c *Child) died() {
	now := time.Now()
	c.launcher.backoff.died(now)
	c.launcher.children.died(now)
	if !c.spoke.Load() {
		c.launcher.indirect.Store(true)
	}
}

// exitWait limits the wait for the exit of a process after the end of its output, and
// for the end of its standard error. On a busy machine the kernel may schedule other
// processes in between.
const exitWait = 2 * time.Second

// ExitReason waits briefly for the process to end and returns how it ended. The end of
// its output is seen before its exit. Without the wait, errors would report only the
// closed output. reason is the code of the cause.
//
// The last lines on stderr may be about a request and contain its arguments. So they
// are returned only if a single client was served, which gets the error. If none was
// served, they also appear in the errors while the child is not restarted.
func (c *Child) ExitReason(served call.ClientCount) (text, reason string) {
	c.endOnce.Do(c.died) // a later end does not count as the first
	if !call.Within(c.exited, exitWait) {
		return "it closed its output", code.TalkExited
	}
	if why := c.killed.Load(); why != nil {
		c.launcher.backoff.explain(*why)
		return why.text, why.code
	}
	call.Within(c.drained, exitWait)
	open := "its process ended: " + exitText(c.cmd, nil) // for the only client
	closed := open                                       // for any
	lines := c.stderr.lines(c.Secrets)
	if len(lines) > 0 {
		shown := withoutTraces(essential(lines))
		open += "; its last lines on stderr: " + strings.Join(shown, " | ")
		if left := len(lines) - len(shown); left > 0 {
			open += fmt.Sprintf(" (the log has %d more)", left)
		}
		closed += "; see the log for its last lines on stderr"
	}
	if served == call.SeveralClients {
		open = closed
	}
	if served == call.NoClient {
		closed = open
	}
	reason = exitCode(lines)
	c.launcher.backoff.explain(failure{reason, closed})
	return open, reason
}

// exitText returns the kernel's status if there is one, rather than Wait's error.
func exitText(cmd *exec.Cmd, err error) string {
	if cmd.ProcessState != nil {
		return cmd.ProcessState.String()
	}
	return fmt.Sprint(err)
}

// End ends the process: it closes its input, then asks its process group to terminate,
// then kills it (2026-07-28, basic/transports/stdio, "Shutdown").
func (c *Child) End(why string) {
	c.endOnce.Do(func() { c.why = why })
	c.in.Close()
	if !c.exitsWithin(c.step()) {
		terminateGroup(c.cmd.Process.Pid)
		if !c.exitsWithin(c.step()) && call.IsClosed(c.Hurried) {
			call.Within(c.exited, min(c.Stop, hurryTime))
		}
	}
	// This also kills what the child has started and left behind.
	killGroup(c.cmd.Process.Pid)
	<-c.exited
	<-c.drained
	c.launcher.guardian.forget(c.cmd.Process.Pid)
	closeAll(c.out.file, c.err.file)
}

// Hurry makes End short: the client that the process serves is gone.
func (c *Child) Hurry() { c.hurried.Store(true) }

// hurriedStep bounds each step of a short end. Both, and what comes before them, are well
// below the two seconds within which the processes of a client that was killed end.
const hurriedStep = 500 * time.Millisecond

// step returns how long a process may take at each step of its end.
func (c *Child) step() time.Duration {
	if c.hurried.Load() {
		return min(c.Stop, hurriedStep)
	}
	return c.Stop
}

// hurryTime is how long a process may take to terminate if the client must close at
// once.
const hurryTime = 200 * time.Millisecond

// exitsWithin waits for the process to end, up to d, or until the client must close at
// once.
func (c *Child) exitsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	case <-c.Hurried:
		return call.IsClosed(c.exited)
	}
}

// Environment returns the variables of a child: those of ours that any program needs, and the
// configured ones.
func Environment(ours, configured []string) []string {
	var env []string
	for _, kv := range ours {
		key, value, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(key)
		switch {
		case strings.HasPrefix(value, "()"): // a shell function
		case slices.Contains(proxies(), upper) && strings.Contains(value, "@"): // has credentials
		case slices.Contains(inherited(), upper), slices.Contains(proxies(), upper):
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
		// The certificates that a company's proxy needs.
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
		// Windows.
		"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA",
		"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "COMSPEC",
	}
}

// proxies returns the names of variables that hold no secrets unless they have credentials
// before an @.
func proxies() []string { return []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"} }
