// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/foreign"
)

var (
	update      = flag.Bool("update", false, "write the table to docs/interop.md")
	onlyServers = flag.String("servers", "", "try only the `servers` that are named, between commas")
)

const (
	eraLegacy = "legacy"
	eraModern = "modern"
)

// eras returns both eras.
func eras() []string { return []string{eraLegacy, eraModern} }

// plain is the server without apps. It is one of ours.
const plain = "plain"

// servers returns the names of the packages with apps, without @modelcontextprotocol/server-.
// Those with a name that begins with basic have the same tool and the same page URI.
func servers() []string {
	all := []string{
		"basic-preact", "basic-react", "basic-solid", "basic-svelte", "basic-vanillajs", "basic-vue", "budget-allocator", "cohort-heatmap",
		"customer-segmentation", "debug", "map", "pdf", "scenario-modeler", "shadertoy", "sheet-music", "system-monitor",
	}
	if *onlyServers != "" {
		all = slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(strings.Split(*onlyServers, ","), name) })
	}
	return all
}

// sameNamed reports whether another server has the names of a server.
func sameNamed(server string) bool {
	isBasic := func(name string) bool { return strings.HasPrefix(name, "basic-") }
	return isBasic(server) && slices.ContainsFunc(servers(), func(other string) bool { return other != server && isBasic(other) })
}

// TestApps lets hosts of both eras run all apps, and prints the table.
func TestApps(t *testing.T) {
	if why := foreign.LacksNode(t); why != "" {
		line := why + ": no apps ran"
		if os.Getenv("CI") == "true" {
			t.Fatal(line)
		}
		fmt.Println(line)
		return
	}
	foreign.CheckLock(t)
	b := bench{node: foreign.InstallNode(t), bin: foreign.BuildGo(t, filepath.Join("..", ".."), "./cmd/signalbox")}
	b.truths = b.learn(t)

	var (
		mu   sync.Mutex
		all  results
		wait sync.WaitGroup
	)
	for _, era := range eras() {
		l := b.newLane(t, era)
		// Waited for below; each run of a host has a limit.
		wait.Go(func() {
			found := l.run(t)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
		})
	}
	wait.Wait()

	text := all.table()
	fmt.Print(text)
	if *update {
		writePage(t, text)
	}
	for _, line := range all.judge() {
		t.Error(line)
	}
}

// bench has what all parts of the test need.
type bench struct {
	node   foreign.Node
	bin    string           // the command signalbox
	truths map[string]truth // by server
}

// truth is what a server has if nothing is in between. It is passed on to hosts as it is.
type truth struct {
	Tools     json.RawMessage `json:"tools"`
	Resources json.RawMessage `json:"resources"`
	Pages     json.RawMessage `json:"pages"`
}

// learn asks each server what it has.
func (b bench) learn(t *testing.T) map[string]truth {
	t.Helper()
	folder := newFolder(t)
	var jobs []job
	for _, name := range append(servers(), plain) {
		jobs = append(jobs, job{Era: eraLegacy, Target: b.program(folder, name), Truth: true, Servers: []served{{Name: name}}})
	}
	found := make(map[string]truth)
	if err := b.host(t.Context(), jobs, func(line []byte) error {
		var o struct {
			Server string `json:"server"`
			truth
		}
		err := json.Unmarshal(line, &o)
		found[o.Server] = o.truth
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(found) != len(jobs) {
		t.Fatalf("%d of %d servers were asked what they have", len(found), len(jobs))
	}
	return found
}

// newFolder returns a folder for the records of calls, with a file for the server of PDF files.
func newFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	data, err := os.ReadFile(filepath.Join("testdata", document))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, document), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

const document = "signal.pdf"

// target is how to reach a server: by URL, or by starting a program.
type target struct {
	URL     string            `json:"url,omitempty"`
	Token   string            `json:"token,omitempty"` // for the URL
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// program is a server on standard input and output, as its package has it.
func (b bench) program(folder, name string) target {
	script, args := b.node.Module("@modelcontextprotocol/server-"+name+"/dist/index.js"), []string{"--stdio"}
	switch name {
	case plain:
		script, args = absolute("servers.mjs"), nil
	case "pdf":
		args = append(args, filepath.Join(folder, document))
	}
	return target{
		Command: b.node.Bin,
		Args:    slices.Concat([]string{"--import", "file://" + absolute("record.mjs"), script}, args),
		Env: map[string]string{
			"RECORD":         filepath.Join(folder, name+".jsonl"),
			"DEBUG_LOG_FILE": filepath.Join(folder, "debug.log"),
		},
	}
}

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err) // there is no working directory
	}
	return abs
}

// job is a session of a host, as host.mjs reads it.
type job struct {
	Era     string   `json:"era"`
	Target  target   `json:"target"`
	Records string   `json:"records"`
	All     []string `json:"all"` // the names of all servers
	Truth   bool     `json:"truth,omitempty"`
	Servers []served `json:"servers"`
}

// served is a server behind the target of a job, and what is tried with it.
type served struct {
	Name   string  `json:"name"`
	Prefix string  `json:"prefix"`
	Label  string  `json:"label"`
	Fenced bool    `json:"fenced"`
	Checks []check `json:"checks"`
	truth
}

// hostLimit bounds one run of a host, which takes seconds.
const hostLimit = 5 * time.Minute

// host runs host.mjs, and calls take for each line of its output.
func (b bench) host(ctx context.Context, jobs []job, take func([]byte) error) error {
	stdin, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hostLimit)
	defer cancel()
	stdout, stderr, err := foreign.Output(ctx, stdin, b.node.Env, b.node.Bin, "host.mjs")
	for line := range bytes.Lines(stdout) {
		err = errors.Join(err, take(line))
	}
	if err != nil {
		return fmt.Errorf("the host: %w\n%s", err, stderr)
	}
	return nil
}

// lane is a gateway in front of servers of one era.
type lane struct {
	bench
	era     string
	folder  string            // of records
	targets map[string]target // of the servers
	url     string            // of the gateway
	token   string            // of the hosts, for the gateway
	gateway *foreign.Process
	output  *bytes.Buffer // of the gateway, when it has ended
}

// newLane starts the servers and the gateway.
func (b bench) newLane(t *testing.T, era string) lane {
	t.Helper()
	l := lane{bench: b, era: era, folder: newFolder(t), targets: make(map[string]target), token: "canary-" + rand.Text(), output: new(bytes.Buffer)}
	all := append(servers(), plain)
	if era == eraModern {
		args := append([]string{"DEBUG_LOG_FILE=" + filepath.Join(l.folder, "debug.log"), b.node.Bin, "modern.mjs", l.folder}, all...)
		first := foreign.Start(t, "env", args...).URL
		for _, name := range all {
			l.targets[name] = target{URL: strings.TrimSuffix(first, all[0]) + name}
		}
	} else {
		for _, name := range all {
			l.targets[name] = b.program(l.folder, name)
		}
	}
	l.gateway = foreign.StartTo(t, l.output, "env", "XDG_STATE_HOME="+filepath.Join(l.folder, "state"), b.bin, "serve", "--config", l.configuration(t), "--listen", "127.0.0.1:0")
	l.url = l.gateway.URL
	return l
}

// configuration writes the configuration of the gateway: all servers, and a profile for each
// that has its own names.
func (l lane) configuration(t *testing.T) string {
	t.Helper()
	entries, profiles := make(map[string]any), make(map[string]any)
	for name, at := range l.targets {
		entries[name] = map[string]any{"type": "http", "url": at.URL}
		if at.URL == "" {
			entries[name] = map[string]any{"command": at.Command, "args": at.Args, "env": at.Env}
		}
		if name != plain {
			profiles[name] = map[string]any{"servers": []string{name}, "names": "own"}
		}
	}
	// On a busy machine everything starts slowly, and a list without a server would be a correct
	// response.
	const patience = "2m"
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(l.token), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{
		"auth":       map[string]any{"tokens": []any{map[string]any{"principal": "host", "file": tokenFile}}},
		"log":        map[string]any{"level": "debug"},
		"mcpServers": entries,
		"profiles":   profiles,
		"limits":     map[string]any{"firstList": patience, "connect": patience},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(l.folder, "signalbox.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run lets hosts of both eras use the servers. One follows the other, because they share the
// records.
func (l lane) run(t *testing.T) results {
	t.Helper()
	var all results
	for _, era := range eras() {
		start := time.Now()
		all = append(all, l.runHost(t, era)...)
		t.Logf("a %s host and %s servers: %v", era, l.era, time.Since(start).Round(time.Second))
	}
	l.checkToken(t)
	return all
}

// checkToken ends the gateway, and checks that the token of the hosts is in nothing that it has
// written, with the log at level debug, and that the servers have received (identity N1, attack 41).
func (l lane) checkToken(t *testing.T) {
	t.Helper()
	if err := l.gateway.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("ending the gateway: %v", err)
		return
	}
	<-l.gateway.Done
	var secrets canary.Set
	if err := secrets.Put("token of the hosts", l.token); err != nil {
		t.Error(err)
	}
	leaks, err := secrets.ScanFiles(l.folder)
	if err != nil {
		t.Error(err)
	}
	for _, leak := range append(leaks, secrets.Scan("output", l.output.String())...) {
		t.Error(leak)
	}
}

// runHost lets a host use the servers, way by way.
func (l lane) runHost(t *testing.T, era string) results {
	t.Helper()
	var all results
	for _, w := range ways() {
		jobs := l.jobs(era, w)
		if len(jobs) == 0 {
			continue
		}
		expected := l.expected(jobs, era, w)
		if err := l.host(t.Context(), jobs, expected.take); err != nil {
			t.Error(err)
		}
		all = append(all, expected...)
	}
	return all
}

// jobs returns the sessions of a host on a way. Those that run at the same time have no server
// in common that is called.
func (l lane) jobs(era string, w way) []job {
	var jobs []job
	add := func(at target, of ...served) {
		j := job{Era: era, Target: at, Records: l.folder, All: []string{plain}, Servers: of}
		for _, s := range of {
			j.All = append(j.All, s.Name)
		}
		jobs = append(jobs, j)
	}
	switch {
	case w == together:
		all := []served{l.served(plain, w)}
		for _, name := range servers() {
			all = append(all, l.served(name, w))
		}
		add(target{URL: l.url, Token: l.token}, all...)
	case w == own:
		for _, name := range servers() {
			add(target{URL: l.url + "/p/" + name, Token: l.token}, l.served(name, w))
		}
	case era == l.era:
		for _, name := range servers() {
			add(l.targets[name], l.served(name, w))
		}
	}
	return jobs
}

// expected returns a result for each check of the jobs, before it has an outcome.
func (l lane) expected(jobs []job, era string, w way) results {
	var all results
	for _, j := range jobs {
		for _, s := range j.Servers {
			for _, c := range s.Checks {
				all = append(all, result{host: era, servers: l.era, way: w, server: s.Name, check: c, problem: "not reached"})
			}
		}
	}
	return all
}

// take gives a result the outcome that a host has printed.
func (all results) take(line []byte) error {
	var o struct {
		Server string `json:"server"`
		Check  check  `json:"check"`
		OK     bool   `json:"ok"`
		Error  string `json:"error"`
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("outcome %q: %w", line, err)
	}
	for i, r := range all {
		if r.server == o.Server && (r.check == o.Check || o.Check == connecting) {
			all[i].ok, all[i].problem = o.OK, o.Error
		}
	}
	return nil
}

// served is a server as it is seen on a way.
func (l lane) served(name string, w way) served {
	s := served{Name: name, Checks: checksOf(name, w), truth: l.truths[name]}
	if w == together {
		s.Prefix, s.Label, s.Fenced = name+"__", name, name == plain
	}
	return s
}
