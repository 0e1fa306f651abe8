// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/logs"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/journal"
)

// attachSite is a configuration with its own state folder. Its gateways are killed at the
// end of the test.
type attachSite struct {
	t      *testing.T
	dir    string
	file   string
	starts string // the servers append their process ids to it
	env    *commandtest.Env
}

func newAttachSite(t *testing.T, servers string) *attachSite {
	t.Helper()
	state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	s := &attachSite{t: t, dir: t.TempDir(), env: commandtest.New(t, "")}
	s.env.LookupEnv = func(name string) (string, bool) { return state, name == commandtest.StateVariable }
	s.file, s.starts = filepath.Join(s.dir, "signalbox.yaml"), filepath.Join(s.dir, "starts")
	commandtest.Write(t, s.file, "listen: 127.0.0.1:0\nmcpServers:\n"+strings.ReplaceAll(servers, "STARTS", strconv.Quote(s.starts)))
	t.Cleanup(func() {
		// One that the test has killed may be about to end.
		pids, _ := s.find(context.WithoutCancel(t.Context()))
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			s.gone(pid)
		}
	})
	return s
}

// gateways returns the process ids of the running gateways.
func (s *attachSite) gateways() []int {
	s.t.Helper()
	pids, err := s.find(s.t.Context())
	if err != nil {
		s.t.Error(err)
	}
	return pids
}

func (s *attachSite) find(ctx context.Context) (pids []int, err error) {
	found, err := control.Running(ctx, s.env.Env, s.file)
	defer control.CloseIdle(found)
	for _, gw := range found {
		pids = append(pids, gw.Process)
	}
	return pids, err
}

// servers returns the process ids of all servers that have been started, if any.
func (s *attachSite) servers() []int {
	s.t.Helper()
	text, err := os.ReadFile(s.starts)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			s.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// startedBy returns the processes that stubborn servers, or one of them, have started.
func (s *attachSite) startedBy(server ...int) []int {
	s.t.Helper()
	text, err := os.ReadFile(s.starts + startedSuffix)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	var pids []int
	for line := range strings.Lines(string(text)) {
		var parent, pid int
		if _, err := fmt.Sscan(line, &parent, &pid); err != nil {
			s.t.Fatal(err)
		}
		if len(server) == 0 || slices.Contains(server, parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isRunning reports whether a process runs. One that has ended may still be in the table
// of processes.
func isRunning(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

// endsWithin is how soon the processes of a client that was killed must have ended. It is
// less than the 5 s of each step of an end in order, and more than the promised 2 s, since
// other tests run at the same time.
const endsWithin = 4 * time.Second

// gone waits for the end of processes, at most endsWithin.
func (s *attachSite) gone(pids ...int) {
	s.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for begun := time.Now(); slices.ContainsFunc(pids, isRunning); <-look.C {
		if time.Since(begun) > endsWithin {
			s.t.Errorf("of the processes %d, some run after %v", pids, endsWithin)
			return
		}
	}
}

// attachedClient is a client with its attach command.
type attachedClient struct {
	pipeClient

	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Closer
	said   *commandtest.Buffer
	id     int
}

func (s *attachSite) attach(args ...string) *attachedClient {
	s.t.Helper()
	return s.client(append([]string{"attach", "--config", s.file}, args...)...)
}

// client starts a command with a client on its standard streams.
func (s *attachSite) client(args ...string) *attachedClient {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), commandtest.Patience)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "signalbox", args...)
	state, _ := s.env.LookupEnv(commandtest.StateVariable)
	cmd.Env = append(os.Environ(), commandtest.NoExitDelay, commandtest.StateVariable+"="+state)
	c := &attachedClient{cmd: cmd, said: new(commandtest.Buffer)}
	cmd.Stderr = c.said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.kill)
	c.pipeClient = pipeClient{t: s.t, in: stdin, lines: bufio.NewScanner(stdout)}
	c.lines.Buffer(nil, 16<<20)
	c.stdin, c.stdout = stdin, stdout
	return c
}

// hangUp closes both pipes, as the end of a client that is killed does.
func (c *attachedClient) hangUp() {
	_ = c.stdin.Close()
	_ = c.stdout.Close()
}

// kill kills the command.
func (c *attachedClient) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *attachedClient) request(method, params string) string {
	c.t.Helper()
	c.id++
	return c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params))
}

func (c *attachedClient) handshake(capabilities string) string {
	c.t.Helper()
	hello := c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"t","version":"1"}}`)
	if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		c.t.Fatal(err)
	}
	return hello
}

func (c *attachedClient) call(tool string) string {
	c.t.Helper()
	return c.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, tool))
}

// Clients that attach at the same time start one gateway, and share the processes of
// servers that keep no state per client.
func TestAttachedClientsShareServers(t *testing.T) {
	t.Parallel()
	clients, servers := 5, 10
	if testing.Short() {
		clients, servers = 3, 2
	}
	var file strings.Builder
	for i := range servers {
		fmt.Fprintf(&file, "  s%d: {command: mcpgrow, args: [STARTS], share: true}\n", i)
	}
	s := newAttachSite(t, file.String())
	var all sync.WaitGroup
	for range clients {
		c := s.attach()
		all.Go(func() {
			c.handshake(`{}`)
			for i := range servers {
				if got := c.call(fmt.Sprintf("s%d__grow", i)); !strings.Contains(got, `"result"`) {
					t.Errorf("s%d: %s", i, got)
				}
			}
		})
	}
	all.Wait()
	if n := len(s.servers()); n != servers {
		t.Errorf("%d processes of servers for %d clients, want %d", n, clients, servers)
	}
	if n := len(s.gateways()); n != 1 {
		t.Errorf("%d gateways, want 1", n)
	}
	if n := len(journal.List(filepath.Join(s.folder(), logs.Folder))); n != 1 {
		t.Errorf("%d gateways have been started", n)
	}
}

func (s *attachSite) folder() string {
	s.t.Helper()
	folder, err := source.StateFolder(s.env.Env, s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	return folder
}

// The processes of a client's session end with the client, and those of others do not.
func TestAttachedClientIsKilled(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*attachedClient){"the client": (*attachedClient).hangUp, "attach": (*attachedClient).kill} {
		for _, manner := range []string{"polite", "stubborn"} {
			t.Run(name+" of a "+manner+" server", func(t *testing.T) {
				t.Parallel()
				killAttached(t, kill, manner)
			})
		}
	}
}

func killAttached(t *testing.T, kill func(*attachedClient), manner string) {
	t.Helper()
	s := newAttachSite(t, fmt.Sprintf("  kid: {command: mcpgrow, args: [STARTS, %s]}\n", manner))
	own := func() (*attachedClient, int) {
		c := s.attach()
		c.handshake(`{"roots":{}}`)
		return c, c.process()
	}
	one, first := own()
	other, second := own()
	kill(one)
	s.gone(append(s.startedBy(first), first)...)
	if got := other.process(); got != second {
		t.Errorf("the other client has process %d after %d", got, second)
	}
}

// process returns the process that serves the client.
func (c *attachedClient) process() int {
	c.t.Helper()
	answer := c.call("kid__grow")
	_, rest, _ := strings.Cut(answer, `"process":`)
	digits, _, _ := strings.Cut(rest, "}")
	pid, err := strconv.Atoi(digits)
	if err != nil {
		c.t.Fatalf("%v: %s", err, answer)
	}
	return pid
}

// Whatever is killed in whatever order, no process of a server is left.
func TestAttachedProcessesAreKilled(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"g", "ag", "ga", "cg", "gc", "cag", "acg", "cga", "gca", "agc", "gac"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			s := newAttachSite(t, "  kid: {command: mcpgrow, args: [STARTS, stubborn]}\n")
			c := s.attach()
			c.handshake(`{"roots":{}}`)
			c.call("kid__grow")
			gateways, servers := s.gateways(), s.servers()
			if len(servers) == 0 || len(gateways) != 1 {
				t.Fatalf("processes %d of servers, and %d of gateways", servers, gateways)
			}
			for _, what := range order {
				switch what {
				case 'c':
					c.hangUp()
				case 'a':
					c.kill()
				case 'g':
					for _, pid := range gateways {
						if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
							t.Error(err)
						}
					}
				}
			}
			s.gone(slices.Concat(s.servers(), s.startedBy(), gateways)...)
		})
	}
}

// The same holds for a client with a gateway of its own.
func TestProcessesOfOneClientAreKilled(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*attachedClient){"the client": (*attachedClient).hangUp, "the gateway": (*attachedClient).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAttachSite(t, "  kid: {command: mcpgrow, args: [STARTS, stubborn]}\n")
			c := s.client("serve", "--stdio", "--config", s.file)
			c.handshake(`{"roots":{}}`)
			c.call("kid__grow")
			kill(c)
			s.gone(append(s.servers(), s.startedBy()...)...)
		})
	}
}

// The gateway is no descendant of the attach that started it, so a client that kills all
// descendants leaves the gateway of the others.
func TestGatewayIsNoDescendant(t *testing.T) {
	t.Parallel()
	s := newAttachSite(t, "  kid: {command: mcpgrow, args: [STARTS]}\n")
	c := s.attach()
	c.handshake(`{}`)
	for _, pid := range s.gateways() {
		for pid > 1 {
			out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
			if err != nil {
				t.Fatal(err)
			}
			if pid, err = strconv.Atoi(strings.TrimSpace(string(out))); err != nil {
				t.Fatal(err)
			}
			if pid == c.cmd.Process.Pid {
				t.Error("it is a descendant of attach")
			}
		}
	}
}

// A call that is in flight when the gateway is killed fails once, and the next request
// starts another gateway.
func TestGatewayOfAttachIsKilled(t *testing.T) {
	t.Parallel()
	s := newAttachSite(t, "  kid: {command: mcpgrow, args: [STARTS]}\n")
	c := s.attach()
	c.handshake(`{"elicitation":{}}`)
	if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","id":"waits","method":"tools/call","params":{"name":"kid__ask","_meta":{"progressToken":1}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	c.await(`"method":"notifications/progress"`)
	for _, pid := range s.gateways() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		s.gone(pid)
	}
	c.await(`"id":"waits"`)
	if got, want := c.heard[slices.IndexFunc(c.heard, func(l string) bool { return strings.Contains(l, `"id":"waits"`) })],
		`"code":1002,"message":"the gateway ended during the request; the request may have been executed","data":{"source":"gateway","outcome":"unknown"}`; !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
	if got := c.call("kid__grow"); !strings.Contains(got, `"result"`) {
		t.Error(got)
	}
	if heard := strings.Join(c.heard, "\n"); strings.Count(heard, `"id":"waits"`) != 1 || !strings.Contains(heard, "notifications/tools/list_changed") {
		t.Errorf("received %s", heard)
	}
}

// The client receives the gateway's own error, and the gateway is tried again.
func TestGatewayOfAttachDoesNotStart(t *testing.T) {
	t.Parallel()
	s := newAttachSite(t, "  kid: {comand: mcpgrow}\n")
	c := s.attach()
	want := `signalbox.yaml:3:9: unknown key \"comand\"`
	for range 2 {
		if got := c.request("initialize", `{}`); !strings.Contains(got, `"code":1001,"message":"the gateway did not start: `) || !strings.Contains(got, want) || !strings.Contains(got, "not_dispatched") {
			t.Errorf("got %s", got)
		}
	}
	if said := c.said.String(); !strings.Contains(said, `signalbox: the gateway did not start: `) {
		t.Errorf("said %q", said)
	}
	commandtest.Write(t, s.file, "listen: 127.0.0.1:0\nmcpServers: {}\n")
	if got := c.handshake(`{}`); !strings.Contains(got, `"result"`) {
		t.Errorf("got %s", got)
	}
}

// A lock that cannot be opened is not one that another client has.
func TestAttachWithoutTheLock(t *testing.T) {
	t.Parallel()
	s := newAttachSite(t, "  kid: {command: mcpgrow, args: [STARTS]}\n")
	if err := os.MkdirAll(filepath.Join(s.folder(), "start.lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := s.attach().request("ping", `{}`)
	if want := `"message":"the gateway cannot be started without its lock: open `; !strings.Contains(got, want) || !strings.Contains(got, `start.lock: is a directory; the request was not sent`) {
		t.Errorf("got %s", got)
	}
}

// If the port is in use, the gateway serves its attached clients.
func TestAttachWithoutThePort(t *testing.T) {
	t.Parallel()
	s := newAttachSite(t, "  {}\n")
	s.attach().handshake(`{}`)
	found, err := control.Running(t.Context(), s.env.Env, s.file)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d gateways, %v", len(found), err)
	}
	control.CloseIdle(found)
	other := newAttachSite(t, "  {}\n")
	commandtest.Write(t, other.file, "listen: "+strings.TrimSuffix(strings.TrimPrefix(found[0].URL, "http://"), "/mcp")+"\nmcpServers: {}\n")
	if got := other.attach().handshake(`{}`); !strings.Contains(got, `"result"`) {
		t.Errorf("got %s", got)
	}
	if code := runCommand(t.Context(), other.env, "logs", "--config", other.file); code != exitOK || !strings.Contains(other.env.Out.String(), "SB_PORT_TAKEN") {
		t.Errorf("exit code %d, logged %s", code, other.env.Out)
	}
}
