// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// target is how to reach a server: by URL, or by starting a command.
type target struct {
	URL     string   `json:"url,omitempty"`
	Token   string   `json:"token,omitempty"` // for the URL, if it needs one
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// server is a server of another project, or one built with another project's SDK.
type server struct {
	name   string
	target target
	// legacyOnly means that it needs initialize; sessionless, that it has no legacy sessions
	// and so sends nothing but responses; private, that changes and log messages of a
	// session are visible to that session alone, and belong to no request; asksAtStart, that
	// it asks for the roots after its handshake, blocks no request for them, and never asks
	// again.
	legacyOnly, sessionless, private, asksAtStart bool
	// bareRoots means that it asks for the roots, in the modern era, without params.
	bareRoots bool
	// core means that every row uses it. Of the others, which are equivalents in other SDKs,
	// the newest revision of each era is enough; the inspector, which takes a process for
	// each request, uses none of them.
	core bool
	// piped means that clients use it through a gateway that they start themselves: one
	// server of each era and transport, those with tasks, and those with changes that are
	// visible to one session alone. Such a gateway differs in how the client reaches it, and
	// each of them starts servers of its own.
	piped bool
	// pinned is the era that the gateway uses with it, whatever else it supports; it is used
	// only through the gateway.
	pinned string
	// shared means that the gateway is configured to treat it as stateless; it is used only
	// through the gateway.
	shared bool
	// probes returns its tests. The tag makes names unique among concurrent clients.
	probes func(tag string) probes
}

// workspace is the folder that the filesystem server serves.
type workspace struct {
	allowed string // allowed by the server's command line
	root    string // a folder in it, offered by the clients as their root
	file    string // a file in the root
}

const fileText = "the points are set"

func newWorkspace(t testing.TB) workspace {
	t.Helper()
	// The server compares real paths, and the temporary folder may be a link.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := workspace{allowed: dir, root: filepath.Join(dir, "root"), file: filepath.Join(dir, "root", "signal.txt")}
	if err := os.Mkdir(w.root, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.file, []byte(fileText), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w workspace) rootURI() string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(w.root)}).String()
}

// startServers starts the servers with a URL and returns all in installed languages.
func startServers(t testing.TB, on machine, w workspace) []server {
	t.Helper()
	all := goServers(t, w)
	if on.node != nil {
		all = append(all, packagedServers(t, *on.node, w)...)
		all = append(all, scriptServers(t, w, made{name: "ts1", legacyOnly: true, tasks: true, bin: on.node.Bin, script: "servers/ts1.mjs"})...)
		all = append(all, sharedServer(t, *on.node))
		all = append(all, scriptServers(t, w, made{name: "ts2", bin: on.node.Bin, script: "servers/ts2.mjs"})...)
	}
	if on.python != nil {
		all = append(all, scriptServers(t, w, made{name: "py-mcp", bin: on.python.Bin, script: "python/server_mcp.py"})...)
		all = append(all, scriptServers(t, w, made{name: "fastmcp", unchanging: true, tasks: true, bin: on.python.Bin, script: "python/server_fastmcp.py"})...)
	}
	return all
}

// goServers are built with the Go SDK.
func goServers(t testing.TB, w workspace) []server {
	t.Helper()
	goserver := foreign.BuildGo(t, ".", "./goserver")
	goURL := foreign.Start(t, goserver, "-listen", "127.0.0.1:0").URL
	statelessURL := goURL[:len(goURL)-len("mcp")] + "stateless"
	probesOf := func(board string, can able) func(string) probes {
		return func(tag string) probes { return probeOwn(tag, w.rootURI(), board, can) }
	}
	return []server{
		{name: "go", legacyOnly: true, core: true, piped: true, probes: probesOf("sessions", able{}), target: target{URL: goURL}},
		{name: "go-stateless", sessionless: true, core: true, piped: true, probes: probesOf("stateless", able{state: true, header: true}),
			target: target{URL: statelessURL}},
		{name: "go-stdio", core: true, piped: true, probes: probesOf("stdio", able{state: true}), target: target{Command: goserver}},
	}
}

// packagedServers are installed by npm.
func packagedServers(t testing.TB, node foreign.Node, w workspace) []server {
	t.Helper()
	everything := node.Module("@modelcontextprotocol/server-everything/dist/index.js")
	filesystem := node.Module("@modelcontextprotocol/server-filesystem/dist/index.js")
	everythingURL := foreign.Start(t, node.Bin, "clients/loopback.mjs", everything, "streamableHttp").URL
	everythingProbes := func(tag string) probes { return probeEverything(tag, w.rootURI()) }
	updating := func(tag string) probes {
		p := everythingProbes(tag)
		p.Updates = updatesOfEverything()
		return p
	}
	return []server{
		{name: "everything", legacyOnly: true, private: true, core: true, piped: true, probes: updating,
			target: target{Command: node.Bin, Args: []string{everything, "stdio"}}},
		{name: "everything-http", legacyOnly: true, private: true, core: true, probes: everythingProbes,
			target: target{URL: everythingURL}},
		{name: "filesystem", legacyOnly: true, asksAtStart: true, core: true, probes: func(string) probes { return probeFilesystem(w) },
			target: target{Command: node.Bin, Args: []string{filesystem, w.allowed}}},
	}
}

// made is a server of ours, built with another project's SDK.
type made struct {
	name, bin, script string
	// legacyOnly means that the SDK supports no other era; unchanging, that it cannot send
	// change notices; tasks, that it has tasks, in its newest era.
	legacyOnly, unchanging, tasks bool
}

// scriptServers returns a server over stdio and over HTTP. If the SDK supports both eras,
// the second is repeated behind a gateway that is configured to use the legacy one.
func scriptServers(t testing.TB, w workspace, m made) []server {
	t.Helper()
	script, err := filepath.Abs(m.script)
	if err != nil {
		t.Fatal(err)
	}
	probesOf := func(board string, can able) func(string) probes {
		return func(tag string) probes {
			p := probeOwn(tag, w.rootURI(), board, can)
			if m.unchanging {
				p.Tools = slices.DeleteFunc(p.Tools, func(name string) bool { return name == "change" || name == "touch" })
				p.Changes, p.Updates = nil, nil
			}
			return p
		}
	}
	start := func(board string) target {
		return target{URL: foreign.Start(t, m.bin, script, board, "--listen").URL}
	}
	web, modern := m.name+"-http", !m.legacyOnly
	all := []server{
		// A child process of this era serves one client alone, and so do its changes.
		{name: m.name, legacyOnly: m.legacyOnly, private: m.legacyOnly, piped: m.legacyOnly, bareRoots: modern, probes: probesOf(m.name, able{state: modern, tasks: m.tasks}),
			target: target{Command: m.bin, Args: []string{script, m.name}}},
		{name: web, legacyOnly: m.legacyOnly, piped: m.tasks, bareRoots: modern, probes: probesOf(web, able{state: modern, header: modern, tasks: m.tasks}), target: start(web)},
	}
	if modern {
		pinned := m.name + "-legacy"
		all = append(all, server{name: pinned, legacyOnly: true, pinned: eraLegacy, probes: probesOf(pinned, able{}), target: start(pinned)})
	}
	return all
}

// sharedServer is a legacy process that all clients share, for effects between calls that a
// modern client cannot see in processes of its own. No client can be asked there, so
// nothing else is tested.
func sharedServer(t testing.TB, node foreign.Node) server {
	t.Helper()
	script, err := filepath.Abs("servers/ts1.mjs")
	if err != nil {
		t.Fatal(err)
	}
	const name = "ts1-shared"
	return server{name: name, legacyOnly: true, shared: true,
		target: target{Command: node.Bin, Args: []string{script, name}},
		probes: func(tag string) probes {
			p := probeOwn(tag, "", name, able{})
			return probes{Tools: p.Tools, Call: p.Call, Cancel: p.Cancel, Changes: p.Changes, Updates: p.Updates}
		}}
}

// The answers of the clients.
const (
	answerName   = "Ada"
	answerSample = "forty-two"
)

func probeEverything(tag, root string) probes {
	resource := "interop-" + tag + ".gz"
	toggle := callProbe{Name: "toggle-simulated-logging", Want: "level"}
	stop := toggle
	toggle.Stop = &stop
	return probes{
		Tools:     []string{"echo", "get-sum", "trigger-long-running-operation"},
		Resources: []string{"demo://resource/static/document/features.md"},
		Templates: []string{"demo://resource/dynamic/text/{resourceId}"},
		Prompts:   []string{"args-prompt", "completable-prompt"},
		Call:      &callProbe{Name: "echo", Arguments: map[string]any{"message": "hello"}, Want: "Echo: hello"},
		Progress: &callProbe{Name: "trigger-long-running-operation", Steps: 3,
			Arguments: map[string]any{"duration": 0.3, "steps": 3}, Want: "completed"},
		Log: &toggle,
		Complete: []completeProbe{
			{Ref: map[string]string{"type": "ref/prompt", "name": "completable-prompt"},
				Argument: map[string]string{"name": "department", "value": "E"}, Value: "Engineering"},
			{Ref: map[string]string{"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"},
				Argument: map[string]string{"name": "resourceId", "value": "7"}, Value: "7"},
		},
		Read: []readProbe{
			{URI: "demo://resource/static/document/features.md", Text: "Everything Server"},
			{URI: "demo://resource/dynamic/text/7", Text: "Resource 7"},
		},
		Get:    &callProbe{Name: "args-prompt", Arguments: map[string]any{"city": "Oslo"}, Want: "Oslo"},
		Elicit: &callProbe{Name: "trigger-elicitation-request", Want: "Name: " + answerName},
		Sample: &callProbe{Name: "trigger-sampling-request",
			Arguments: map[string]any{"prompt": "Name a number."}, Want: answerSample},
		Roots: &callProbe{Name: "get-roots-list", Want: root, Eventually: true},
		Structure: &callProbe{Name: "get-structured-content",
			Arguments: map[string]any{"location": "New York"}, Want: "humidity"},
		Caps:     []string{"tools", "resources", "prompts", "completions", "logging"},
		Instruct: "Everything Server",
		Changes: &changeProbe{Kind: "resources", Item: "demo://resource/session/" + resource,
			Add: callProbe{Name: "gzip-file-as-resource", Want: "",
				Arguments: map[string]any{"name": resource, "data": "data:text/plain,hello"}}},
	}
}

// updatesOfEverything is tested with one of the two servers with the same resources,
// because a gateway asks one server for a URI. That server sends updates to a session only
// after a request in that session.
func updatesOfEverything() *updateProbe {
	toggle := callProbe{Name: "toggle-subscriber-updates", Want: "simulated resource update"}
	stop := toggle
	toggle.Stop = &stop
	return &updateProbe{URI: "demo://resource/dynamic/text/1", Touch: toggle}
}

func probeFilesystem(w workspace) probes {
	return probes{
		Tools: []string{"read_text_file", "list_allowed_directories"},
		Call:  &callProbe{Name: "read_text_file", Arguments: map[string]any{"path": w.file}, Want: fileText},
		Roots: &callProbe{Name: "list_allowed_directories", Want: w.root, Eventually: true},
	}
}

// probeOwn has the probes of goserver, and of its equivalents in other languages; board is
// the one of its resource templates that the others do not have, because a gateway asks one
// server for a URI.
func probeOwn(tag, root, board string, can able) probes {
	block := map[string]any{"key": tag}
	witness := func(state string) callProbe {
		return callProbe{Name: "witness", Arguments: map[string]any{"key": tag, "state": state}, Want: state}
	}
	item := "added-" + tag
	touched := "interop://" + board + "/" + tag
	p := probes{
		Tools: []string{
			"block", "change", "echo", "elicit", "header", "kinds", "log", "measure", "roots", "sample", "several", "steps", "touch",
			"use", "visit", "witness",
		},
		Resources: []string{"interop://greeting"},
		Templates: []string{"interop://item/{id}", "interop://" + board + "/{id}"},
		Prompts:   []string{"welcome"},
		Call:      &callProbe{Name: "echo", Arguments: map[string]any{"text": "hello"}, Want: "echo: hello"},
		Progress:  &callProbe{Name: "steps", Steps: 3, Arguments: map[string]any{"steps": 3}, Want: "3 steps"},
		Cancel: &cancelProbe{Block: callProbe{Name: "block", Arguments: block},
			Started: witness("started"), Cancelled: witness("cancelled")},
		Log: &callProbe{Name: "log", Arguments: map[string]any{"text": "logged by " + tag}, Want: "logged by " + tag},
		Complete: []completeProbe{
			{Ref: map[string]string{"type": "ref/prompt", "name": "welcome"},
				Argument: map[string]string{"name": "language", "value": "n"}, Value: "nynorsk"},
			{Ref: map[string]string{"type": "ref/resource", "uri": "interop://" + board + "/{id}"},
				Argument: map[string]string{"name": "id", "value": "4"}, Value: "42"},
		},
		Read: []readProbe{
			{URI: "interop://greeting", Text: "hello"},
			{URI: "interop://" + board + "/42", Text: board + " 42"},
		},
		Get:    &callProbe{Name: "welcome", Arguments: map[string]any{"language": "suomi"}, Want: "in suomi"},
		Elicit: &callProbe{Name: "elicit", Want: "accept: " + answerName},
		Sample: &callProbe{Name: "sample", Want: answerSample},
		Roots:  &callProbe{Name: "roots", Want: root},
		Several: &callProbe{Name: "several",
			Want: fmt.Sprintf("accept: %s\nfirst root: %s\n%s", answerName, root, answerSample)},
		URL:       &callProbe{Name: "visit", Want: "accept"},
		Use:       &callProbe{Name: "use", Want: "use: compass"},
		Kinds:     &callProbe{Name: "kinds", Want: "text image audio resource resource_link"},
		Structure: &callProbe{Name: "measure", Want: "nine fathoms"},
		Errors:    missing("interop://" + board + "/missing"),
		Caps:      []string{"tools", "resources", "prompts", "completions", "logging"},
		Changes: &changeProbe{Kind: "tools", Item: item,
			Add:    callProbe{Name: "change", Arguments: map[string]any{"name": item}, Want: "added"},
			Use:    &callProbe{Name: item, Arguments: map[string]any{"text": "new"}, Want: "echo: new"},
			Remove: &callProbe{Name: "change", Arguments: map[string]any{"name": item, "remove": true}, Want: "removed"}},
		Updates: &updateProbe{URI: touched,
			Touch: callProbe{Name: "touch", Arguments: map[string]any{"uri": touched}, Want: "touched"}},
	}
	if can.state {
		p.State = &callProbe{Name: "keep", Arguments: map[string]any{"key": tag}, Want: "state of " + tag}
	}
	if can.tasks {
		p.Tasks = &callProbe{Name: "brew", Arguments: map[string]any{"text": "tea"}, Want: "brewed tea"}
	}
	if can.header {
		p.Header = &callProbe{Name: "header", Arguments: map[string]any{"region": "north"}, Want: "header: north"}
	}
	return p
}

// able lists what a server of ours can do only in the modern era: keep its state with the
// client and, over HTTP, read an argument from a header. Tasks means that its SDK has them,
// in its only era with tasks.
type able struct{ state, header, tasks bool }
