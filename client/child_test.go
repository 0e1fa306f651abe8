// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// childEnv makes the test binary a server, of the kind that its value names.
const childEnv = "SIGNALBOX_TEST_CHILD"

// stdio is the standard input and output of this process.
type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return nil }

// childMain is the server that the test binary becomes.
func childMain(kind string) int {
	s := &faultyserver.Lines{Modern: strings.HasPrefix(kind, "modern"), On: map[string]func(*faultyserver.Line){}}
	s.On["tools/call"] = func(x *faultyserver.Line) {
		name, _ := x.Msg.Params.Text(mcp.FieldName)
		childTool(x, name)
	}
	switch {
	case strings.Contains(kind, "crash"):
		fmt.Fprintln(os.Stderr, "cannot open the database")
		return 3
	case strings.Contains(kind, "stubborn"):
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		s.Serve(stdio{})
		// Neither the end of input nor TERM ends it. If nothing could wake it, the
		// runtime would end it: without cgo it ends a process that can only sleep.
		for range asked {
		}
	case strings.Contains(kind, "willing"):
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		s.Serve(stdio{})
		<-asked // neither the end of its input nor TERM ends it
		return 5
	case strings.Contains(kind, "gateway"):
		return childGateway(strings.TrimPrefix(kind, "gateway-"))
	}
	s.Serve(stdio{})
	return 0
}

func childTool(x *faultyserver.Line, name string) {
	switch name {
	case "env":
		x.Result(fmt.Sprintf(`{"content":[%q]}`, strings.Join(os.Environ(), " ")))
	case "pid":
		x.Result(fmt.Sprintf(`{"content":[%d]}`, os.Getpid()))
	case "die":
		fmt.Fprintln(os.Stderr, "about to \x1b[31mdie")
		os.Exit(7)
	case "silent":
		token := x.Msg.Params.Raw(mcp.MetaProgressToken)
		x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, token))
	case "long line":
		x.Send(strings.Repeat("x", 1<<20))
	case "close":
		os.Stdout.Close()
	case "half a line and close", "half a line and exit", "no line break and close", "no line break and exit":
		word := string(jsonrpc.AppendResult(nil, x.Msg.ID, []byte(`{"content":[]}`)))
		if strings.HasPrefix(name, "half") {
			word = word[:len(word)-3]
		}
		os.Stdout.WriteString(word)
		if strings.HasSuffix(name, "exit") {
			os.Exit(7)
		}
		os.Stdout.Close()
	case "stderr":
		os.Stderr.WriteString(strings.Repeat(strings.Repeat("e", 1023)+"\n", 1024))
		fmt.Fprintln(os.Stderr, "the tail")
		x.Polite()
	case "answer and leave":
		leave(false, func(pid int) { x.Result(fmt.Sprintf(`{"content":[%d]}`, pid)) })
	case "leave":
		leave(false, func(pid int) { fmt.Fprintln(os.Stderr, "left", pid) })
	case "leave a daemon":
		leave(true, func(pid int) { fmt.Fprintln(os.Stderr, "left", pid) })
	case "grandchild":
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=stubborn")
		in, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			os.Exit(9)
		}
		_ = in // held open for as long as this process lives
		x.Result(fmt.Sprintf(`{"content":[%d]}`, cmd.Process.Pid))
	default:
		x.Polite()
	}
}

// leave ends the process and leaves another one behind, which holds its streams until
// it is killed.
func leave(daemon bool, say func(pid int)) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=stubborn")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if daemon {
		ownSession(cmd)
	}
	if cmd.Start() != nil {
		os.Exit(9)
	}
	say(cmd.Process.Pid)
	os.Exit(7)
}

// childGateway has a child of its own, calls a tool of it that names a process, and
// waits to be killed.
func childGateway(tool string) int {
	c := client.NewCommand(client.Command{Path: os.Args[0], Env: []string{childEnv + "=modern-stubborn"}}, client.Config{Name: "b"})
	res, err := c.Serve(context.Background(), &mcp.Request{Method: "tools/call", Params: mustObject(`{"name":"` + tool + `"}`), Client: &mcp.Peer{}}, &recorder{})
	if err != nil {
		return 1
	}
	fmt.Println(string(res.Raw(mcp.FieldContent)))
	select {}
}

func mustObject(raw string) mcp.Object {
	o, err := mcp.ParseObject([]byte(raw))
	if err != nil {
		panic(err)
	}
	return o
}

// quickExit keeps the race detector from waiting a second at the end of each process.
const quickExit = "GORACE=atexit_sleep_ms=0"

// startChild returns a client of the test binary as a server.
func startChild(t *testing.T, kind string, cfg client.Config) *client.Client {
	t.Helper()
	cfg.Name = "b"
	c := client.NewCommand(client.Command{Path: os.Args[0], Env: []string{childEnv + "=" + kind, quickExit}}, cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func tool(t *testing.T, name string) *mcp.Request {
	return request(t, "tools/call", `{"name":"`+name+`"}`)
}

// isRunning reports whether a process exists and is not a zombie.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// awaitGone waits until a process has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Second)
	for isRunning(pid) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func pidIn(t *testing.T, res *mcp.Result, err error) int {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Trim(string(res.Raw(mcp.FieldContent)), "[]"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A child that is killed during a call fails the call at once, with its exit status and
// its last lines on stderr. The next call starts a new child (faults 48 and 58, M159;
// D5).
//
// D5+ 2026-07-28 basic/transports/stdio: "If the server process exits unexpectedly,
// the client SHOULD restart it."
func TestM159ChildDies(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"modern", "legacy"} {
		c := startChild(t, kind, client.Config{})
		began := time.Now()
		_, err := within(t, c, tool(t, "die"), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, `exit status 7; its last lines on stderr: about to \x1b[31mdie`)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: took %v", kind, took)
		}
		if _, err := within(t, c, tool(t, "x"), &recorder{}); err != nil {
			t.Errorf("%s: the next call: %v", kind, err)
		}
	}
}

// A call right after the last output of a child, which is half a line or lacks a line
// break, goes to a new child, or is known not to have been sent. A child that has
// closed its output and still runs receives no call either (I19).
func TestCallAfterTheLastOutputOfAChild(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"modern", "legacy"} {
		for _, how := range []string{"half a line and close", "half a line and exit", "no line break and close", "no line break and exit"} {
			t.Run(kind+", "+how, func(t *testing.T) {
				t.Parallel()
				for range 2 {
					c := startChild(t, kind, client.Config{})
					_, err := within(t, c, tool(t, how), &recorder{})
					if strings.HasPrefix(how, "half") {
						wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "its answer breaks the protocol")
					} else if err != nil {
						t.Fatal(err)
					}
					if _, err := within(t, c, tool(t, "x"), &recorder{}); err != nil {
						t.Errorf("the call after it: %v", err)
					}
				}
			})
		}
	}
}

// A call made between the last output of a child and its exit does not affect the
// pending calls: they report how the process ended.
func TestPendingCallsReportHowTheirChildEnded(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"modern", "legacy"} {
		c := startChild(t, kind, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, tool(t, "x")), &recorder{}); err != nil {
			t.Fatal(err)
		}
		ear := &recorder{block: make(chan struct{})}
		waits := launch(t, c, in(scope, request(t, "tools/call", `{"name":"silent","_meta":{"progressToken":1}}`)), ear)
		ear.block <- struct{}{} // it has arrived
		if _, err := within(t, c, in(scope, tool(t, "no line break and exit")), &recorder{}); err != nil {
			t.Fatal(err)
		}
		if _, err := within(t, c, in(scope, tool(t, "x")), &recorder{}); err != nil {
			t.Errorf("%s: the call after it: %v", kind, err)
		}
		<-waits.done
		wantFault(t, waits.err, mcp.CodeBackendFailed, mcp.Unknown, "exit status 7")
	}
}

// endTime is a log handler that records when a child ended. What happens before that,
// such as the start of another process, takes longer on a busy machine.
type endTime struct{ at atomic.Pointer[time.Time] }

func (e *endTime) Write(p []byte) (int, error) {
	if now := time.Now(); strings.Contains(string(p), "backend process ended") {
		e.at.Store(&now)
	}
	return len(p), nil
}

func (e *endTime) ago(t *testing.T) time.Duration {
	t.Helper()
	at := e.at.Load()
	if at == nil {
		t.Fatal("the end of the process is not in the log")
	}
	return time.Since(*at)
}

// A child that ends and leaves a process behind that holds its streams fails its call
// as soon as a child that leaves none, and its output is read to the end. Processes
// that it leaves in its group are killed. A daemon, with a session of its own, is not.
func TestChildThatLeavesAProcessBehind(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"leave": false, "leave a daemon": true} {
		var end endTime
		c := startChild(t, "modern", client.Config{Logger: slog.New(slog.NewTextHandler(&end, nil))})
		if _, err := within(t, c, tool(t, "x"), &recorder{}); err != nil {
			t.Fatal(err)
		}
		_, err := within(t, c, tool(t, name), &recorder{})
		took := end.ago(t)
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "exit status 7; its last lines on stderr: left ")
		if took > 700*time.Millisecond {
			t.Errorf("%s: the call failed %v after its end", name, took)
		}
		_, text, _ := strings.Cut(err.Error(), "left ")
		pid, err := strconv.Atoi(strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })[0])
		if err != nil {
			t.Fatal(err)
		}
		if stays {
			if !isRunning(pid) {
				t.Errorf("%s: process %d was ended", name, pid)
			}
			if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
				t.Errorf("process %d cannot be ended: %v", pid, err)
			}
		}
		awaitGone(t, pid)
	}
}

// The last lines on stderr of a child that several clients use may be about any of
// them. They are only logged, and not repeated to another client later. With a single
// client, the error contains them.
func TestStderrLinesGoToASingleClient(t *testing.T) {
	t.Parallel()
	const words, log = "its last lines on stderr: about to ", "exit status 7; see the log for its last lines on stderr"
	tests := []struct {
		name, kind string
		share      bool
		others     bool // are served before
		want       string
	}{
		{"modern, one client", "modern", false, false, words},
		{"modern, several", "modern", false, true, log},
		{"legacy, one process each", "legacy", false, true, words},
		{"legacy shared, one client", "legacy", true, false, words},
		{"legacy shared, several", "legacy", true, true, log},
	}
	for _, tt := range tests {
		c := startChild(t, tt.kind, client.Config{Share: tt.share})
		ours := mcp.NewScope("lists", nil) // requests of the gateway itself do not count as a client
		_, err := within(t, c, in(ours, request(t, "tools/list", "{}")), &recorder{})
		wantError(t, err, mcp.CodeMethodNotFound)
		one, other := mcp.NewScope("one", &recorder{}), mcp.NewScope("other", &recorder{})
		for range 2 {
			if _, err := within(t, c, in(one, tool(t, "x")), &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
		if tt.others {
			if _, err := within(t, c, in(other, tool(t, "x")), &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
		_, err = within(t, c, in(one, tool(t, "die")), &recorder{})
		if !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		ours.End()
		one.End()
		other.End()
	}
}

// The error while a child is not started goes to all clients.
func TestStderrLinesAreNotRepeatedToOtherClients(t *testing.T) {
	t.Parallel()
	c := startChild(t, "legacy", client.Config{})
	for range 20 {
		scope := mcp.NewScope("s", &recorder{})
		_, err := within(t, c, in(scope, tool(t, "die")), &recorder{})
		scope.End()
		if text := fmt.Sprint(err); strings.Contains(text, "the next start is in") {
			if strings.Contains(text, "about to") || !strings.Contains(text, "see the log") {
				t.Errorf("error %v", err)
			}
			return
		}
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "about to")
	}
	t.Error("it was started again and again")
}

// The response that a child sent before its exit is delivered, although another process
// still holds its output.
func TestLastResponseOfAChildThatLeavesAProcessBehind(t *testing.T) {
	t.Parallel()
	c := startChild(t, "legacy", client.Config{})
	res, err := within(t, c, tool(t, "answer and leave"), &recorder{})
	awaitGone(t, pidIn(t, res, err))
}

// A child that closes its output and keeps running is ended (M201).
func TestM201ChildClosesItsOutput(t *testing.T) {
	t.Parallel()
	c := startChild(t, "modern", client.Config{})
	res, err := within(t, c, tool(t, "pid"), &recorder{})
	pid := pidIn(t, res, err)
	_, err = within(t, c, tool(t, "close"), &recorder{})
	wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "closed its output")
	awaitGone(t, pid)
}

// A child that cannot start reports why, and is not restarted without end (faults 48,
// 49).
//
// D5- 2026-07-28 basic/transports/stdio: "If the server process exits unexpectedly,
// the client SHOULD restart it."
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	c := startChild(t, "crash", client.Config{})
	var err error
	for range 4 {
		_, err = within(t, c, tool(t, "x"), &recorder{})
		if err == nil {
			t.Fatal("no error")
		}
		if strings.Contains(err.Error(), "the next start is in") {
			return
		}
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "exit status 3; its last lines on stderr: cannot open the database")
	}
	t.Errorf("started again and again; the last error is %v", err)
}

// Fault 47: the error names what is missing, and the system's error.
func TestProgramThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"bare": "echo hello\n", "script": "#!/no/such/interpreter -x\n", "empty": "", "windows": "#!/bin/sh\r\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, tt := range []struct {
		cmd  client.Command
		want string
	}{
		{client.Command{Path: "no-such-program-here"}, `its program "no-such-program-here" was not found in PATH`},
		{client.Command{Path: "/no/such/program"}, `its program "/no/such/program" does not exist (no such file or directory)`},
		{client.Command{Path: "/etc/passwd"}, `its program "/etc/passwd" may not be executed (permission denied)`},
		{client.Command{Path: "/bin/sh", Dir: at("nowhere")}, `its working directory "` + at("nowhere") + `" does not exist or is not a directory (no such file or directory)`},
		{client.Command{Path: "/bin/sh", Dir: at("bare")}, `its working directory "` + at("bare") + `" does not exist or is not a directory (not a directory)`},
		{client.Command{Path: at("bare")}, `its program "` + at("bare") + `" is a script without a #! line, or is built for another system or processor (exec format error)`},
		{client.Command{Path: at("empty")}, `(exec format error)`},
		{client.Command{Path: at("script")}, `the interpreter "/no/such/interpreter" in the first line of its program "` + at("script") + `" does not exist (no such file or directory)`},
		{client.Command{Path: "./script", Dir: dir}, `the interpreter "/no/such/interpreter" in the first line of its program "./script" does not exist`},
		{client.Command{Path: at("windows")}, `the interpreter "/bin/sh\r" in the first line`},
	} {
		c := client.NewCommand(tt.cmd, client.Config{Name: "b"})
		_, err := within(t, c, tool(t, "x"), &recorder{})
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, tt.want)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// However often it is tried, the error gives the reason why the program cannot start,
// and its code.
func TestProgramThatCannotBeStartedKeepsItsCode(t *testing.T) {
	t.Parallel()
	c := client.NewCommand(client.Command{Path: "no-such-program-here"}, client.Config{Name: "b"})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for range 12 {
		_, err := within(t, c, tool(t, "x"), &recorder{})
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, `its program "no-such-program-here" was not found in PATH`)
		if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Reason != code.StartNotFound {
			t.Errorf("error %#v, want the code %s", err, code.StartNotFound)
		}
		if strings.Contains(err.Error(), "process ended") {
			t.Errorf("error %v, though no process ever was", err)
		}
	}
}

// The child gets the configured variables, and a few of this process (requirement D8).
//
// D8+ 2026-07-28 basic/authorization/index: "instead retrieve credentials from the
// environment."
func TestD8ChildEnvironment(t *testing.T) {
	t.Setenv("SIGNALBOX_SECRET", "s3cr3t")
	t.Setenv("LANG", "C.UTF-8")
	c := startChild(t, "modern", client.Config{})
	res, err := within(t, c, tool(t, "env"), &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	got := string(res.Bytes())
	if strings.Contains(got, "s3cr3t") || !strings.Contains(got, "LANG=C.UTF-8") || !strings.Contains(got, childEnv+"=modern") {
		t.Errorf("environment %s", got)
	}
}

// A flood on standard error does not delay the response. It is logged within limits,
// and its last lines are kept (M157, fault 78).
//
// D2- 2026-07-28 basic/transports/stdio: "SHOULD NOT assume `stderr` output indicates
// error conditions."
func TestM157StderrFlood(t *testing.T) {
	var text strings.Builder
	logger := slog.New(slog.NewTextHandler(&text, nil))
	c := client.NewCommand(client.Command{Path: os.Args[0], Env: []string{childEnv + "=modern"}}, client.Config{Name: "b", Logger: logger})
	if _, err := within(t, c, tool(t, "stderr"), &recorder{}); err != nil {
		t.Error(err)
	}
	_, err := within(t, c, tool(t, "die"), &recorder{})
	wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "the tail")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(text.String(), "backend stderr\""); n == 0 || n > 300 {
		t.Errorf("%d lines of 1025 were logged", n)
	}
}

// A child that ignores the end of its input and TERM is killed, together with its own
// children (M138, M139, fault 79).
//
// D3- 2026-07-28 basic/transports/stdio: "If the server does not exit within a
// reasonable time, forcibly terminating the process using the mechanism appropriate
// for the operating system."
func TestM138StubbornChild(t *testing.T) {
	t.Parallel()
	const stop = 100 * time.Millisecond
	c := startChild(t, "modern-stubborn", client.Config{Stop: stop})
	res, err := within(t, c, tool(t, "grandchild"), &recorder{})
	grandchild := pidIn(t, res, err)
	res, err = within(t, c, tool(t, "pid"), &recorder{})
	child := pidIn(t, res, err)
	if !isRunning(grandchild) || !isRunning(child) {
		t.Fatal("not running")
	}
	began := time.Now()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 2*stop {
		t.Errorf("it was ended within %v, want not before both steps were over", took)
	}
	awaitGone(t, child)
	awaitGone(t, grandchild)
}

// A child that ends with its input is not sent TERM, and one that ends on TERM is not
// killed.
//
// D3+ 2026-07-28 basic/transports/stdio: "Closing the input stream to the child
// process (the server)."
//
// D3- 2026-07-28 basic/transports/stdio: "On POSIX systems, forced termination
// typically escalates from SIGTERM to SIGKILL."
func TestHowAChildEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, status string }{
		{"modern", "exit status 0"}, {"legacy", "exit status 0"}, {"modern-willing", "exit status 5"},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			c := startChild(t, tt.kind, client.Config{Stop: time.Second, Logger: slog.New(slog.NewTextHandler(&text, nil))})
			if _, err := within(t, c, tool(t, "x"), &recorder{}); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if want := `status="` + tt.status + `"`; !strings.Contains(text.String(), want) {
				t.Errorf("the log is %s; want %s", text.String(), want)
			}
		})
	}
}

// The log gives the reason why a child is ended, unless the child is just no longer
// needed.
func TestWhyAChildIsEnded(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]string{
		"long line": `"it sent a message of more than 65536 bytes (limits.backendMessage)"`,
		"pid":       "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			log := slog.New(slog.NewTextHandler(&text, nil))
			c := startChild(t, "modern", client.Config{Stop: time.Second, MaxMessage: 64 << 10, Logger: log})
			_, err := within(t, c, tool(t, name), &recorder{})
			if reason != "" {
				wantFault(t, err, mcp.CodeLimit, mcp.Unknown, "it sent a message of more than 65536 bytes (limits.backendMessage)")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			_, ended, ok := strings.Cut(text.String(), `msg="backend process ended"`)
			if _, got, _ := strings.Cut(ended, " reason="); !ok || strings.TrimSpace(got) != reason {
				t.Errorf("the log is %s; want reason=%s", text.String(), reason)
			}
		})
	}
}

// Neither a child nor what it has started outlives a parent that is killed (M139,
// M105).
func TestM139ChildDiesWithItsParent(t *testing.T) {
	for _, process := range []string{"pid", "grandchild"} {
		t.Run(process, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"=gateway-"+process)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			child, err := strconv.Atoi(strings.Trim(line, "[]\n"))
			if err != nil || !isRunning(child) {
				t.Fatalf("child %q: %v", line, err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the gateway ended by itself")
			}
			awaitGone(t, child)
		})
	}
}

var _ io.ReadWriteCloser = stdio{}
