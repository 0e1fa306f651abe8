// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// manyServers is a gateway of twenty servers, with a file to which each process of them
// appends its ID.
type manyServers struct {
	t       *testing.T
	dir     string
	n       int
	environ []string
	url     string // of the gateway
}

func newManyServers(t *testing.T, idle string) *manyServers {
	t.Helper()
	m := &manyServers{t: t, dir: t.TempDir(), n: 20}
	if testing.Short() {
		m.n = 5
	}
	state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	m.environ = append(os.Environ(), commandtest.StateVariable+"="+state)
	text := "listen: 127.0.0.1:0\nmcpServers:\n"
	for i := range m.n {
		text += fmt.Sprintf("  s%d: {command: mcpgrow, args: [%q]%s}\n", i, filepath.Join(m.dir, "started"), idle)
	}
	commandtest.Write(t, filepath.Join(m.dir, "signalbox.yaml"), text)
	return m
}

// serve starts the gateway and returns a client of it, in a session of its own.
func (m *manyServers) serve() (*process, func(method, params string) string) {
	m.t.Helper()
	gw, err := startProcess(m.dir, m.environ, "signalbox", "serve")
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(gw.kill)
	match, err := gw.expect(`listening on (\S+)`)
	if err != nil {
		m.t.Fatal(err)
	}
	m.url = match[1]
	return gw, m.session()
}

// session returns a client of the gateway.
func (m *manyServers) session() func(method, params string) string {
	m.t.Helper()
	c := client.NewHTTP(m.url, client.Config{Version: mcp.V20251125})
	m.t.Cleanup(func() { c.Close() })
	scope := mcp.NewScope("client", nil)
	return func(method, params string) string {
		m.t.Helper()
		req, err := mcp.NewRequest(method, []byte(params))
		if err != nil {
			m.t.Fatal(err)
		}
		req.Scope, req.Client = scope, &mcp.Peer{Version: mcp.V20251125, Info: []byte(`{"name":"t","version":"1"}`), Capabilities: []byte(`{"elicitation":{}}`)}
		ctx, cancel := context.WithTimeout(context.Background(), commandtest.Patience)
		defer cancel()
		res, err := c.Serve(ctx, req, nil)
		if err != nil {
			m.t.Fatalf("%s %s: %v", method, params, err)
		}
		return string(res.Bytes())
	}
}

// processes returns how many processes of the servers were started, and how many run.
func (m *manyServers) processes() (started, running int) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, "started"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	pids := strings.Fields(string(text))
	for _, pid := range pids {
		if n, err := strconv.Atoi(pid); err == nil && runs(n) {
			running++
		}
	}
	return len(pids), running
}

// runs reports whether a process runs. One that has ended and was not waited for does not.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")) // on Linux
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err != nil || !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// awaitRunning waits until so many processes run.
func (m *manyServers) awaitRunning(want int, within time.Duration) {
	m.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		_, running := m.processes()
		switch {
		case running == want:
			return
		case time.Since(start) > within:
			m.t.Fatalf("%d processes run, want %d", running, want)
		}
	}
}

// Of twenty configured servers that a client lists, only those that it uses have a process
// after the idle time, and what it lists stays the same. The next gateway offers that at
// once, and starts a server with the first call. No process survives the gateway.
func TestOnlyUsedServersRun(t *testing.T) {
	t.Parallel()
	m := newManyServers(t, ", idle: 1s")
	gw, request := m.serve()
	tools := request("tools/list", `{}`)
	if n := strings.Count(tools, `"name"`); n != 2*m.n {
		t.Fatalf("%d tools are listed: %s", n, tools)
	}
	m.awaitRunning(0, commandtest.Patience)
	if got := request("tools/list", `{}`); got != tools {
		t.Errorf("%s is listed, want %s", got, tools)
	}
	started, _ := m.processes()
	request("tools/call", `{"name":"s1__ask"}`)
	if now, running := m.processes(); running != 1 || now != started+1 {
		t.Errorf("after a call %d processes run, and %d were started", running, now-started)
	}
	if got := request("tools/list", `{}`); got != tools {
		t.Errorf("%s is listed, want %s", got, tools)
	}
	m.awaitRunning(0, commandtest.Patience)
	if err := gw.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := gw.finish(); err != nil {
		t.Fatal(err)
	}

	started, _ = m.processes()
	gw, request = m.serve()
	if got := request("tools/list", `{}`); got != tools {
		t.Errorf("%s is listed after a restart, want %s", got, tools)
	}
	if now, _ := m.processes(); now != started {
		t.Errorf("%d processes were started for the lists", now-started)
	}
	for _, name := range []string{"s1__ask", "s2__ask", "s3__ask"} {
		request("tools/call", fmt.Sprintf(`{"name":%q}`, name))
	}
	if !testing.Short() {
		m.awaitRunning(0, commandtest.Patience)
	}
	request("tools/call", `{"name":"s1__ask"}`) // it was started before
	request("tools/call", `{"name":"s4__ask"}`)
	if _, running := m.processes(); running < 2 {
		t.Errorf("%d processes run after calls of two servers", running)
	}
	gw.kill() // SIGKILL
	m.awaitRunning(0, endsWithin)
}

// Without the key, a process in which a client has made calls stays with the session of the
// client.
func TestUsedServerKeepsTheStateOfAClient(t *testing.T) {
	t.Parallel()
	m := newManyServers(t, "")
	_, request := m.serve()
	before := request("tools/list", `{}`)
	request("tools/call", `{"name":"s1__grow"}`)
	after := request("tools/list", `{}`)
	if !strings.Contains(after, "s1__grown") || strings.Contains(before, "s1__grown") {
		t.Errorf("%s is listed after %s", after, before)
	}
	// One for the lists of each server, one for the client's session with s1, and none for
	// the lists of s2, which its session with the client notifies of as well.
	request("tools/call", `{"name":"s2__ask"}`)
	m.awaitRunning(m.n+1, commandtest.Patience)
}

// Many processes of one server are a problem with a cure.
func TestManyCopiesOfOneServerAreAProblem(t *testing.T) {
	t.Parallel()
	m := newManyServers(t, "")
	commandtest.Write(t, filepath.Join(m.dir, "signalbox.yaml"), fmt.Sprintf("listen: 127.0.0.1:0\nmcpServers: {s: {command: mcpgrow, args: [%q]}}\n", filepath.Join(m.dir, "started")))
	_, first := m.serve()
	first("tools/call", `{"name":"s__ask"}`)
	for range 3 {
		m.session()("tools/call", `{"name":"s__ask"}`)
	}
	m.awaitRunning(4, commandtest.Patience) // the process of the lists has ended
	cmd := programCommand(t, "status")
	cmd.Dir, cmd.Env = m.dir, append(m.environ, commandtest.NoExitDelay)
	out, err := cmd.Output()
	if want := `backend "s": 4 processes of it run, one for each client; if it keeps nothing for its clients, share: true lets them use one [SB_CHILD_COPIES]`; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}

// With a client on stdio, a gateway that has kept the lists starts only the servers that the
// client calls, each once.
func TestOneClientStartsWhatItUses(t *testing.T) {
	t.Parallel()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			t.Parallel()
			m := newManyServers(t, "")
			id := 0
			serve := func() (end func(), request func(method, params string) string) {
				cmd := programCommand(t, "serve", "--stdio")
				cmd.Dir, cmd.Env = m.dir, append(m.environ, commandtest.NoExitDelay)
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				c := &pipeClient{t: t, in: in, lines: bufio.NewScanner(out)}
				c.lines.Buffer(nil, 1<<20)
				request = func(method, params string) string {
					t.Helper()
					id++
					if modern {
						params = strings.Trim(params+","+meta, ",")
					}
					answer := c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params))
					return strings.Replace(answer, fmt.Sprintf(`"id":%d`, id), "", 1)
				}
				if !modern {
					request("initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}`)
					fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
				return func() {
					in.Close()
					if err := cmd.Wait(); err != nil {
						t.Error(err)
					}
				}, request
			}
			end, request := serve()
			tools := request("tools/list", "")
			if n := strings.Count(tools, `"inputSchema"`); n != 2*m.n {
				t.Fatalf("%d tools are listed: %s", n, tools)
			}
			m.awaitRunning(m.n, commandtest.Patience)
			end()
			m.awaitRunning(0, commandtest.Patience)

			started, _ := m.processes()
			end, request = serve()
			if got := request("tools/list", ""); got != tools {
				t.Errorf("%s is listed, want %s", got, tools)
			}
			if now, running := m.processes(); now != started || running != 0 {
				t.Errorf("%d processes were started for the lists", now-started)
			}
			request("tools/call", `"name":"s1__grow"`)
			if got := request("tools/call", `"name":"s1__grown"`); !strings.Contains(got, `"content":[]`) {
				t.Errorf("s1__grown: %s", got)
			}
			m.awaitRunning(1, commandtest.Patience)
			if now, _ := m.processes(); now != started+1 {
				t.Errorf("%d processes were started for two calls of one server", now-started)
			}
			end()
			m.awaitRunning(0, commandtest.Patience)
		})
	}
}
