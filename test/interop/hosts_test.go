// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

const (
	// leaveLimit is how long a gateway may take to end after the end of its input, in
	// addition to its servers. The SDKs of TypeScript and Python send SIGTERM after 2 s.
	leaveLimit = 1500 * time.Millisecond
	// startMargin and slower bound the first list. While others start, a gateway asks each
	// server for its eras and for four lists, and a direct client for one: on an idle
	// machine that is a tenth of the time, and on a busy one each request has to wait.
	startMargin = 2 * time.Second
	slower      = 2
	// withinDirect bounds the first list relative to the time of concurrent direct
	// connections to all servers, as the median of several.
	withinDirect = 1.1
)

// TestHosts lets each client start a gateway as a host does: with common servers and no
// limit of its own. A client lists the tools at once and leaves, or makes a call first.
func TestHosts(t *testing.T) {
	on := languages(t)
	if on.node == nil || on.python == nil {
		on.printSkipped(os.Stdout)
		return
	}
	space := newWorkspace(t)
	ans := answers{Name: answerName, Sample: answerSample, Root: space.rootURI()}
	h := newHost(t, on, space, ans)
	t.Run("leave", func(t *testing.T) { h.leave(t) })
	t.Run("in time", func(t *testing.T) { h.inTime(t) })
	for _, c := range chosen(*onlyClients, clients(t, on), func(c client) string { return c.name }) {
		for _, r := range spawning([]client{c}) {
			t.Run(r.client+" "+r.version, func(t *testing.T) { h.try(t, c, r) })
		}
	}
}

// hostServers are common in configurations: two in TypeScript, one in Python, all on stdio.
// The mark is an argument that each of them accepts.
func hostServers(on machine, w workspace, mark string) []server {
	filesystem := on.node.Module("@modelcontextprotocol/server-filesystem/dist/index.js")
	memory := on.node.Module("@modelcontextprotocol/server-memory/dist/index.js")
	fixed := func(p probes) func(string) probes { return func(string) probes { return p } }
	return []server{
		{name: "filesystem", legacyOnly: true, target: target{Command: on.node.Bin, Args: []string{filesystem, w.allowed, mark}},
			probes: fixed(probes{Call: &callProbe{Name: "read_text_file", Arguments: map[string]any{"path": w.file}, Want: fileText}})},
		{name: "memory", legacyOnly: true, target: target{Command: on.node.Bin, Args: []string{memory, mark}},
			probes: fixed(probes{Call: &callProbe{Name: "read_graph", Want: "entities"}})},
		{name: "time", target: target{Command: on.python.Bin, Args: []string{"-X", mark, "-m", "mcp_server_time"}},
			probes: fixed(probes{Call: &callProbe{Name: "get_current_time", Arguments: map[string]any{"timezone": "UTC"}, Want: "UTC"}})},
	}
}

// host starts gateways, and knows their expected lists.
type host struct {
	gw      gateway
	servers []server
	config  string
	ans     answers
	tools   map[string][]string // of each server, all names
}

func newHost(t *testing.T, on machine, space workspace, ans answers) host {
	t.Helper()
	h := host{gw: newGateway(t, nil), ans: ans, tools: make(map[string][]string)}
	h.servers = hostServers(on, space, h.gw.mark)
	h.config = filepath.Join(t.TempDir(), "mcp.json")
	entries := make(map[string]any)
	for _, s := range h.servers {
		entries[s.name] = map[string]any{"command": s.target.Command, "args": s.target.Args}
		h.tools[s.name] = allTools(t, s, ans)
	}
	data, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// allTools lists the tools of a server directly.
func allTools(t *testing.T, s server, ans answers) []string {
	t.Helper()
	session := &goSession{job: newPlan(row{"go-sdk", newestLegacy}, s.target, ans).job, inbox: newInbox()}
	ctx, cancel := context.WithTimeout(t.Context(), featureLimit)
	defer cancel()
	if err := session.connect(ctx); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	defer session.cs.Close()
	names, err := session.listed(ctx, "tools")
	if err != nil || len(names) == 0 {
		t.Fatalf("%s has the tools %q, %v", s.name, names, err)
	}
	return names
}

// watched is the target of a gateway behind a shell that forwards SIGTERM and records the
// gateway's exit status.
func (h host) watched(status string) target {
	const watch = `exec 3<&0; "$@" <&3 & pid=$!; trap 'kill -TERM $pid' TERM; wait $pid; s=$?
while kill -0 $pid 2>/dev/null; do wait $pid; s=$?; done; echo $s >>"$STATUS"`
	return target{Command: "env", Args: []string{"STATUS=" + status, "sh", "-c", watch, "sh", h.gw.bin, "serve", "--stdio", "--config", h.config}}
}

// behind returns the probes of all servers by their names behind the gateway.
func (h host) behind() []probes {
	var all []probes
	for _, s := range h.servers {
		p := probes{Tools: h.tools[s.name]}.prefixed(s.name + "__")
		p.Name = s.name
		all = append(all, p)
	}
	return all
}

// try compares a client that has all servers with one that has a gateway.
func (h host) try(t *testing.T, c client, r row) {
	var direct, calls []job
	for _, s := range h.servers {
		p := probes{Name: s.name, Tools: h.tools[s.name]}
		if r.era() == eraLegacy || !s.legacyOnly {
			direct = append(direct, newPlan(r, s.target, h.ans, p).job)
		}
	}
	status := filepath.Join(t.TempDir(), "status")
	list := newPlan(r, h.watched(status), h.ans, h.behind()...).job
	for _, s := range h.servers {
		p := probes{Call: s.probes("").Call}.prefixed(s.name + "__")
		p.Name = s.name
		calls = append(calls, newPlan(r, h.watched(status), h.ans, p).job)
	}
	alone := h.run(t, c, direct)
	through := h.run(t, c, []job{list})
	t.Logf("first list: direct %v, through %v; close: direct %v, through %v", alone.first, through.first, alone.close, through.close)
	if limit := slower*alone.first + startMargin; r.era() == eraLegacy && through.first > limit {
		t.Errorf("the first list took %v, want at most %v", through.first, limit)
	}
	if limit := alone.close + leaveLimit; through.close > limit {
		t.Errorf("closing took %v, want at most %v", through.close, limit)
	}
	first := h.run(t, c, calls[len(calls)-1:])
	t.Logf("first call: %v", first.call)
	h.checkEnds(t, status)
}

// inTime compares the time to the first complete list with that of concurrent direct
// connections to all servers, in turns. Other load changes a round by more than the
// difference, so the medians count, and there are more rounds if those are too far apart.
func (h host) inTime(t *testing.T) {
	through := server{name: "signalbox", target: target{Command: h.gw.bin, Args: []string{"serve", "--stdio", "--config", h.config}}}
	var direct, behind []time.Duration
	const few, many = 5, 20
	for len(direct) < many && !t.Failed() {
		direct = append(direct, measureReal(t, h.ans, h.servers).took)
		behind = append(behind, measureReal(t, h.ans, []server{through}).took)
		if len(direct) >= few && float64(median(behind)) <= withinDirect*float64(median(direct)) {
			break
		}
	}
	t.Logf("the whole list of %d servers, median of %d: direct %v, through %v", len(h.servers), len(direct), median(direct), median(behind))
	if limit := time.Duration(withinDirect * float64(median(direct))); median(behind) > limit {
		t.Errorf("the whole list took %v, want at most %v", median(behind), limit)
	}
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// took has the longest times of some sessions.
type took struct{ first, call, close time.Duration }

// run runs jobs concurrently and expects all of them to work.
func (h host) run(t *testing.T, c client, jobs []job) took {
	t.Helper()
	for i := range jobs {
		jobs[i].ID = i
	}
	outcomes, err := c.run(t.Context(), jobs)
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
	}
	connected, lists := make(map[int]time.Duration), make(map[int]time.Duration)
	var found took
	seen := 0
	for _, o := range outcomes {
		switch {
		case o.OK:
		case o.Feature == outcomeClose && len(jobs) > 1:
			// A server itself took longer to end than its client waits.
			t.Logf("%s without a gateway: %s", o.Feature, o.Error)
		default:
			t.Errorf("%s of %q: %s", o.Feature, o.Server, o.Error)
		}
		ms := time.Duration(o.MS) * time.Millisecond
		switch o.Feature {
		case featureConnect:
			connected[o.Job] = ms
			found.call = max(found.call, ms)
		case featureTools:
			// A gateway has all servers in the first list; a client that opens a session for
			// each list takes as long for each.
			lists[o.Job] = max(lists[o.Job], ms)
			seen++
		case featureCall:
			found.call += ms
			seen++
		case outcomeClose:
			found.close = max(found.close, ms)
		default:
		}
	}
	if want := len(slices.Concat(perServer(jobs)...)); seen != want {
		t.Errorf("got %d lists and calls, want %d", seen, want)
	}
	for id, ms := range connected {
		found.first = max(found.first, ms+lists[id])
	}
	return found
}

// perServer returns the probes of each job.
func perServer(jobs []job) [][]probes {
	var all [][]probes
	for _, j := range jobs {
		all = append(all, j.Servers)
	}
	return all
}

// checkEnds checks the exit status of the gateways, and what is left of them.
func (h host) checkEnds(t *testing.T, status string) {
	t.Helper()
	// A client may leave without waiting.
	ctx, cancel := context.WithTimeout(t.Context(), 2*foreign.StopGrace)
	defer cancel()
	left := h.left(t)
	for ; len(left) > 0 && ctx.Err() == nil; left = h.left(t) {
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	if len(left) > 0 {
		t.Errorf("these processes were left: %q", left)
	}
	said, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	for s := range strings.FieldsSeq(string(said)) {
		if s != "0" {
			t.Errorf("a gateway ended with status %s", s)
		}
	}
}

// left returns the running gateways, which have the configuration among their arguments,
// and their child processes, which have the mark.
func (h host) left(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-A", "-ww", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, h.config) || strings.Contains(line, h.gw.mark) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// leave uses a gateway without any SDK: one list, the end of its input, and the gateway's
// output and exit status after that.
func (h host) leave(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), featureLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.gw.bin, "serve", "--stdio", "--config", h.config)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<24)
	listed := wantTools(t, lines)
	for _, s := range h.servers {
		if err := includesAll(listed, prefixAll(h.tools[s.name], s.name+"__")); err != nil {
			t.Error(err)
		}
	}
	stdin.Close()
	left := time.Now()
	for lines.Scan() {
		t.Errorf("after the list it wrote %s", lines.Text())
	}
	err = cmd.Wait()
	t.Logf("it ended %v after the end of its input", time.Since(left).Round(time.Millisecond))
	if took := time.Since(left); err != nil || took > leaveLimit {
		t.Errorf("it ended %v after the end of its input with %v, want at most %v and nothing", took, err, leaveLimit)
	}
	if left := h.left(t); len(left) > 0 {
		t.Errorf("these processes were left: %q", left)
	}
}

// wantTools reads up to the response of the list, and expects no notification before it.
func wantTools(t *testing.T, lines *bufio.Scanner) []string {
	t.Helper()
	for lines.Scan() {
		var m struct {
			ID     int
			Method string
			Result struct{ Tools []*mcp.Tool }
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if m.Method != "" {
			t.Errorf("before the list it wrote %s", lines.Text())
		}
		if m.ID != 2 {
			continue
		}
		var names []string
		for _, tool := range m.Result.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	t.Fatal("it ended before the list")
	return nil
}
