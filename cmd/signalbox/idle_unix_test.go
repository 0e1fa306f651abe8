// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
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
	"github.com/signalbox-mcp/signalbox/mcp"
)

// manyServers is a gateway of twenty servers, with a file to which each process of them
// appends its ID.
type manyServers struct {
	t       *testing.T
	dir     string
	environ []string
}

func newManyServers(t *testing.T, idle string) *manyServers {
	t.Helper()
	m := &manyServers{t: t, dir: t.TempDir()}
	state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	m.environ = append(os.Environ(), stateVariable+"="+state)
	text := "listen: 127.0.0.1:0\nmcpServers:\n"
	for i := range 20 {
		text += fmt.Sprintf("  s%d: {command: mcpgrow, args: [%q]%s}\n", i, filepath.Join(m.dir, "started"), idle)
	}
	write(t, filepath.Join(m.dir, "signalbox.yaml"), text)
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
	c := client.NewHTTP(match[1], client.Config{Version: mcp.V20251125})
	m.t.Cleanup(func() { c.Close() })
	scope := mcp.NewScope("client", nil)
	return gw, func(method, params string) string {
		m.t.Helper()
		req, err := mcp.NewRequest(method, []byte(params))
		if err != nil {
			m.t.Fatal(err)
		}
		req.Scope, req.Client = scope, &mcp.Peer{Version: mcp.V20251125, Info: []byte(`{"name":"t","version":"1"}`), Capabilities: []byte(`{"elicitation":{}}`)}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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
		if n, err := strconv.Atoi(pid); err == nil && syscall.Kill(n, 0) == nil {
			running++
		}
	}
	return len(pids), running
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
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	m := newManyServers(t, ", idle: 1s")
	gw, request := m.serve()
	tools := request("tools/list", `{}`)
	if n := strings.Count(tools, `"name"`); n != 40 {
		t.Fatalf("%d tools are listed: %s", n, tools)
	}
	m.awaitRunning(0, patience)
	if got := request("tools/list", `{}`); got != tools {
		t.Errorf("%s is listed, want %s", got, tools)
	}
	started, _ := m.processes()
	request("tools/call", `{"name":"s7__ask"}`)
	if now, running := m.processes(); running != 1 || now != started+1 {
		t.Errorf("after a call %d processes run, and %d were started", running, now-started)
	}
	if got := request("tools/list", `{}`); got != tools {
		t.Errorf("%s is listed, want %s", got, tools)
	}
	m.awaitRunning(0, patience)
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
	m.awaitRunning(0, patience)
	request("tools/call", `{"name":"s1__ask"}`) // it was started before
	request("tools/call", `{"name":"s4__ask"}`)
	if _, running := m.processes(); running != 2 {
		t.Errorf("%d processes run after calls of two servers", running)
	}
	gw.kill() // SIGKILL
	m.awaitRunning(0, 2*time.Second)
}

// Without the key, a process in which a client has made calls stays with the session of the
// client.
func TestUsedServerKeepsTheStateOfAClient(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	m := newManyServers(t, "")
	_, request := m.serve()
	before := request("tools/list", `{}`)
	request("tools/call", `{"name":"s7__grow"}`)
	after := request("tools/list", `{}`)
	if !strings.Contains(after, "s7__grown") || strings.Contains(before, "s7__grown") {
		t.Errorf("%s is listed after %s", after, before)
	}
	// One for the lists of each server, one for the client's session with s7, and none for
	// the lists of s8, which its session with the client notifies of as well.
	request("tools/call", `{"name":"s8__ask"}`)
	m.awaitRunning(21, patience)
}
