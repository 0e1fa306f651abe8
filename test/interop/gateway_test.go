// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// gateway is the built binary, with one configuration that has every server, and one for
// the gateways that clients start themselves.
type gateway struct {
	bin, config, small string
	state              string // the state folder of the gateway that clients attach to
	// mark is an argument of every child process of a gateway, and of the gateways only.
	mark string
	// occupant is a row with a client that stays until the gateway ends, and probes are its
	// tests.
	occupant row
	probes   []probes
}

// newGateway builds the binary and writes its configurations.
func newGateway(t testing.TB, servers []server) gateway {
	t.Helper()
	dir := t.TempDir()
	state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	gw := gateway{
		state:  state,
		bin:    foreign.BuildGo(t, filepath.Join("..", ".."), "./cmd/signalbox"),
		config: filepath.Join(dir, "servers.json"),
		small:  filepath.Join(dir, "piped.json"),
		mark:   dir,

		occupant: row{"go-sdk", "2025-11-25"},
	}
	var piped []server
	for _, s := range servers {
		gw.probes = append(gw.probes, s.behind(gw.occupant, "end"))
		if s.piped {
			piped = append(piped, s)
		}
	}
	gw.write(t, gw.config, servers, nil)
	gw.write(t, gw.small, piped, nil)
	return gw
}

// write writes the configuration of a gateway that has the servers, with these keys besides.
func (gw gateway) write(t testing.TB, path string, servers []server, keys map[string]any) {
	t.Helper()
	// The keys of an encoded map are sorted, like the servers.
	entries := make(map[string]any)
	for _, s := range servers {
		entry := map[string]any{"command": s.target.Command, "args": slices.Concat(s.target.Args, []string{gw.mark})}
		if s.target.URL != "" {
			entry = map[string]any{"type": "http", "url": s.target.URL}
		}
		if s.pinned != "" {
			entry["era"] = s.pinned
		}
		if s.shared {
			entry["share"] = true
		}
		entries[s.name] = entry
	}
	all := map[string]any{
		"mcpServers": entries,
		"profiles":   map[string]any{everything: map[string]any{"servers": slices.Sorted(maps.Keys(entries))}},
		// On a busy machine everything starts slowly. A list without a server would be a
		// correct response, but not the one that is compared here.
		"limits": map[string]any{
			"firstList": featureLimit.String(), "connect": featureLimit.String(), "handshake": featureLimit.String(), "headerRead": featureLimit.String(),
			"sessionUninitialized": featureLimit.String(), "callIdle": (2 * featureLimit).String(), "write": featureLimit.String(),
		},
	}
	maps.Copy(all, keys)
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tried reports whether a client uses the server on a route.
func (s server) tried(r row, way route) bool {
	switch {
	case way.direct && (s.shared || s.pinned != ""), way.piped && !s.piped:
		return false
	default:
		return s.core || !profileOf(r.client).few && r.version >= newestLegacy
	}
}

// apart reports whether two concurrent calls of a client have a process each, so that
// neither can observe the other.
func (s server) apart(r row) bool {
	return s.private && s.target.Command != "" && r.era() == eraModern
}

// behind returns the probes of a server with its names behind the gateway. A cancellation
// that no other call can observe is not tested: the blocked call would keep its process
// from the next tests. A client that cannot be asked for its roots, or ends too early,
// tests once.
func (s server) behind(r row, tag string) probes {
	p := s.probes(tag).prefixed(s.name + "__")
	p.Name = s.name
	if s.apart(r) {
		p.Cancel = nil
	}
	if p.Roots != nil && (r.era() == eraModern || r.client == inspectorName) {
		p.Roots.Eventually = false
	}
	return p
}

// stdio is the target of clients that start a gateway of their own.
func (gw gateway) stdio() target {
	args := []string{"serve", "--stdio", "--config", gw.small}
	if *viaProfile {
		args = append(args, "--profile", everything)
	}
	return target{Command: gw.bin, Args: args}
}

// everything is the profile with all servers of a gateway.
const everything = "everything"

// attach is the target of clients that start 'signalbox attach'.
func (gw gateway) attach() target {
	return target{Command: "env", Args: []string{"XDG_STATE_HOME=" + gw.state, gw.bin, "attach", "--config", gw.small}}
}

// startAttached starts the gateway that the clients on attach share.
func (gw gateway) startAttached(t testing.TB) *foreign.Process {
	t.Helper()
	return foreign.Start(t, "env", "XDG_STATE_HOME="+gw.state, gw.bin, "serve", "--config", gw.small, "--listen", "127.0.0.1:0")
}

// end ends a gateway.
func (gw gateway) end(t testing.TB, p *foreign.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done
}

// start serves all clients on one endpoint.
func (gw gateway) start(t testing.TB) *foreign.Process {
	t.Helper()
	p := foreign.Start(t, gw.bin, "serve", "--config", gw.config, "--listen", "127.0.0.1:0")
	if *viaProfile {
		p.URL += "/p/" + everything
	}
	return p
}

// occupy opens a session that is never closed, with a child process of every server that
// has one, so that the gateway has something to end.
func (gw gateway) occupy(t testing.TB, p *foreign.Process, ans answers) {
	t.Helper()
	s := &goSession{job: newPlan(gw.occupant, target{URL: p.URL}, ans).job, inbox: newInbox()}
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cs.Close() })
	for _, p := range gw.probes {
		if err := s.waitFor(ctx, p); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		if err := s.try(ctx, featureCall, p); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
	}
}

// upLimit is when the servers of the gateway must have started. A gateway gives each a time
// to start, ends it and starts it again, and on a busy machine the first start of all at
// once may take longer than that.
const upLimit = 5 * featureLimit

// waitFor returns when the tools of a server are listed.
func (s *goSession) waitFor(ctx context.Context, p probes) error {
	for {
		err := s.try(ctx, featureTools, p)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return err
		}
	}
}

// checkEnd signals the gateway to end while it has child processes and a session, and
// checks what is left.
func (gw gateway) checkEnd(t testing.TB, p *foreign.Process) {
	t.Helper()
	before := gw.processes(t)
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	select {
	case <-p.Done:
	case <-time.After(2 * foreign.StopGrace):
		t.Fatalf("the gateway runs %v after SIGTERM", 2*foreign.StopGrace)
	}
	t.Logf("the gateway and %d children ended %v after SIGTERM", len(before)-1, time.Since(asked).Round(time.Millisecond))
	if p.Err != nil {
		t.Errorf("after SIGTERM the gateway ended with %v", p.Err)
	}
	if len(before) < 2 {
		t.Errorf("before SIGTERM there were no children but the gateway: %q", before)
	}
	if left := gw.processes(t); len(left) > 0 {
		t.Errorf("the gateways left processes behind: %q", left)
	}
}

// processes returns the command lines of the gateways and their child processes.
func (gw gateway) processes(t testing.TB) []string {
	t.Helper()
	return running(t, gw.mark)
}

// running returns the command lines of processes with a mark among their arguments.
func running(t testing.TB, mark string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-A", "-ww", "-o", "pid=,ppid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, mark) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
