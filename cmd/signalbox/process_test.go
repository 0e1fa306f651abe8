// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
)

// process is a command that runs concurrently to a test, and its standard error.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed after the end; err is set then
	err   error

	mu   sync.Mutex
	said []byte
	seen int           // how much of it expect has searched
	news chan struct{} // closed and replaced after each write
}

// startProcess starts a command in a folder. If the test ends first, it is killed.
func startProcess(dir string, environ []string, name string, args ...string) (*process, error) {
	p := &process{ended: make(chan struct{}), news: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), name, args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = dir, append(environ, commandtest.NoExitDelay), p
	p.cmd.WaitDelay = time.Second // processes that it leaves behind may hold the pipe
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Write appends what the process writes to standard error.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, text...)
	close(p.news)
	p.news = make(chan struct{})
	return len(text), nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// find searches for a pattern after the last match.
func (p *process) find(pattern *regexp.Regexp) (match []string, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.said[p.seen:]
	at := pattern.FindSubmatchIndex(rest)
	if at == nil {
		return nil, p.news
	}
	p.seen += at[1]
	for i := 0; i < len(at); i += 2 {
		match = append(match, string(rest[at[i]:at[i+1]]))
	}
	return match, nil
}

// expect waits until the output of the process matches the pattern.
func (p *process) expect(pattern string) ([]string, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(commandtest.Patience)
	defer late.Stop()
	for {
		match, news := p.find(re)
		if match != nil {
			return match, nil
		}
		select {
		case <-news:
		case <-p.ended:
			if match, _ := p.find(re); match != nil {
				return match, nil
			}
			return nil, fmt.Errorf("the process ended (%w) and never said %q:\n%s", p.err, pattern, p.all())
		case <-late.C:
			return nil, fmt.Errorf("the process did not say %q:\n%s", pattern, p.all())
		}
	}
}

func (p *process) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.said)
}

// finish waits for the end and returns the exit code, -1 after a signal.
func (p *process) finish() (int, error) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(commandtest.Patience):
		return 0, fmt.Errorf("the process did not end:\n%s", p.all())
	}
}

// gatewaysKey is the key of a script's processes.
type gatewaysKey struct{}

func named(ts *testscript.TestScript, name string) *process {
	p, ok := ts.Value(gatewaysKey{}).(map[string]*process)[name]
	if !ok {
		ts.Fatalf("nothing was started under the name %q", name)
	}
	return p
}

// scriptStart implements "start NAME ARGS": it runs signalbox concurrently to the script. The
// process gets only the variables GATE, HOME, HOST, SHELL, and those of the folders.
func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: start NAME ARGS")
	}
	p, err := startProcess(ts.MkAbs("."), environOf(ts), "signalbox", args[1:]...)
	ts.Check(err)
	ts.Defer(p.kill)
	ts.Value(gatewaysKey{}).(map[string]*process)[args[0]] = p
}

func environOf(ts *testscript.TestScript) []string {
	environ := os.Environ()
	for _, name := range []string{"GATE", commandtest.StateVariable, "HOME", commandtest.ConfigVariable, "SHELL", "HOST"} {
		environ = append(environ, name+"="+ts.Getenv(name))
	}
	return environ
}

// scriptTalk implements "talk FILE ARGS": it runs signalbox with the messages of a file as its
// input, which ends when all requests among them are answered, and sets stdout. With stdin and exec
// the input ends at once, and a gateway under load cancels what it has not answered soon after that.
func scriptTalk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: talk FILE ARGS")
	}
	input := ts.ReadFile(args[0])
	ctx, cancel := context.WithTimeout(context.Background(), commandtest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "signalbox", args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = ts.MkAbs("."), append(environOf(ts), commandtest.NoExitDelay), ts.Stderr()
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	_, err = io.WriteString(in, input)
	ts.Check(err)
	open := 0
	for line := range strings.Lines(input) {
		if hasID, hasMethod := envelopeOf(line); hasID && hasMethod {
			open++
		}
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		_, err := fmt.Fprintln(ts.Stdout(), lines.Text())
		ts.Check(err)
		if hasID, hasMethod := envelopeOf(lines.Text()); hasID && !hasMethod {
			if open--; open == 0 {
				ts.Check(in.Close())
			}
		}
	}
	if err := cmd.Wait(); err != nil || open != 0 {
		ts.Fatalf("%d requests are not answered, and signalbox %q ended: %v", open, args[1:], err)
	}
}

// envelopeOf returns which members a message has that tell its kind.
func envelopeOf(line string) (hasID, hasMethod bool) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal([]byte(line), &m) != nil {
		return false, false
	}
	return m.ID != nil, m.Method != ""
}

// scriptExpect implements "expect NAME PATTERN [VARIABLE]": it waits until the output of the
// process matches, after the previous match. The variable is set to the first group of the
// pattern.
func scriptExpect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: expect NAME PATTERN [VARIABLE]")
	}
	match, err := named(ts, args[0]).expect(args[1])
	ts.Check(err)
	if len(args) == 3 {
		ts.Setenv(args[2], match[1])
	}
}

// scriptSignal implements "signal NAME SIGNAL".
func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	known := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt, "HUP": syscall.SIGHUP}
	if neg || len(args) != 2 || known[args[1]] == nil {
		ts.Fatalf("usage: signal NAME TERM|INT|HUP")
	}
	ts.Check(named(ts, args[0]).cmd.Process.Signal(known[args[1]]))
}

// scriptFinish implements "finish NAME CODE": it waits for the end, and sets stderr.
func scriptFinish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: finish NAME CODE")
	}
	p := named(ts, args[0])
	code, err := p.finish()
	ts.Check(err)
	if strconv.Itoa(code) != args[1] {
		ts.Fatalf("exit code %d, want %s:\n%s", code, args[1], p.all())
	}
	_, err = ts.Stderr().Write([]byte(p.all()))
	ts.Check(err)
}

// scriptExits implements "exits CODE ARGS": it runs signalbox, and checks the exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS")
	}
	code := exitOK
	if err := ts.Exec("signalbox", args[1:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// scriptGet implements "get URL STATUS": it sets stdout to the body.
func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get URL STATUS")
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, args[0], http.NoBody)
	ts.Check(err)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	ts.Check(err)
	defer resp.Body.Close()
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
	if strconv.Itoa(resp.StatusCode) != args[1] {
		ts.Fatalf("status %d, want %s", resp.StatusCode, args[1])
	}
}

// scriptUntil implements "until PATTERN ARGS": it runs signalbox repeatedly until its output
// matches, for changes that are not announced.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN ARGS")
	}
	re := regexp.MustCompile(args[0])
	for start := time.Now(); time.Since(start) < commandtest.Patience; {
		cmd := exec.CommandContext(context.Background(), "signalbox", args[1:]...)
		cmd.Dir = ts.MkAbs(".")
		cmd.Env = append(os.Environ(), commandtest.NoExitDelay, commandtest.StateVariable+"="+ts.Getenv(commandtest.StateVariable))
		if token := ts.Getenv(target.TokenVariable); token != "" {
			cmd.Env = append(cmd.Env, target.TokenVariable+"="+token)
		}
		out, err := cmd.Output()
		if err == nil && re.Match(out) {
			_, err = ts.Stdout().Write(out)
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("signalbox %q never printed %q", args[1:], args[0])
}

func TestProcess(t *testing.T) {
	t.Parallel()
	p, err := startProcess(t.TempDir(), os.Environ(), "signalbox", "check", "nothing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	match, err := p.expect(`check (\S+): read`)
	if err != nil || match[1] != "nothing.yaml" {
		t.Errorf("got %q, %v", match, err)
	}
	if _, err := p.expect("check"); err == nil {
		t.Error("expect found what it had gone past")
	}
	if code, err := p.finish(); code != exitFailed || err != nil {
		t.Errorf("ended with %d, %v", code, err)
	}
	if _, err := startProcess(t.TempDir(), nil, "no-such-command"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v, want that there is no such command", err)
	}
}
