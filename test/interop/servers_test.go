// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// target is how to reach a server: by URL, or by starting a command.
type target struct {
	URL     string   `json:"url,omitempty"`
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// server is one server that nobody here wrote, or made with an SDK that nobody
// here wrote.
type server struct {
	name   string
	target target
	// legacyOnly says that it cannot do without initialize; sessionless, that it
	// keeps no legacy session, so that nothing can come from it but answers;
	// private, that what a session changes or logs is seen by that session alone,
	// and comes from no request; asksAtStart, that it asks for the roots after its
	// handshake, waits for them with no request, and never asks again.
	legacyOnly, sessionless, private, asksAtStart bool
	// probes returns what to do with it. The tag makes names unique where
	// clients that run at once would meet.
	probes func(tag string) probes
}

// workspace is the folder that the filesystem server serves.
type workspace struct {
	allowed string // what the server's command line allows
	root    string // a folder in it, what the clients offer as their root
	file    string // a file in the root
}

const fileText = "the points are set"

func newWorkspace(t *testing.T) workspace {
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

// startServers starts those that are reached by URL and returns all of them.
func startServers(t *testing.T, node foreign.Node, w workspace) []server {
	t.Helper()
	goserver := foreign.BuildGo(t, ".", "./goserver")
	everything := node.Module("@modelcontextprotocol/server-everything/dist/index.js")
	filesystem := node.Module("@modelcontextprotocol/server-filesystem/dist/index.js")
	everythingURL := foreign.Start(t, node.Bin, "clients/loopback.mjs", everything, "streamableHttp").URL
	goURL := foreign.Start(t, goserver, "-listen", "127.0.0.1:0").URL
	statelessURL := goURL[:len(goURL)-len("mcp")] + "stateless"
	roots := w.rootURI()
	everythingProbes := func(tag string) probes { return probeEverything(tag, roots) }
	goProbes := func(board string) func(string) probes {
		return func(tag string) probes { return probeGo(tag, roots, board) }
	}
	return []server{
		{name: "everything", legacyOnly: true, private: true, probes: everythingProbes,
			target: target{Command: node.Bin, Args: []string{everything, "stdio"}}},
		{name: "everything-http", legacyOnly: true, private: true, probes: everythingProbes,
			target: target{URL: everythingURL}},
		{name: "filesystem", legacyOnly: true, asksAtStart: true, probes: func(string) probes { return probeFilesystem(w) },
			target: target{Command: node.Bin, Args: []string{filesystem, w.allowed}}},
		{name: "go", legacyOnly: true, probes: goProbes("sessions"), target: target{URL: goURL}},
		{name: "go-stateless", sessionless: true, probes: goProbes("stateless"), target: target{URL: statelessURL}},
		{name: "go-stdio", probes: goProbes("stdio"), target: target{Command: goserver}},
	}
}

// What the clients answer when they are asked.
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
		Changes: &changeProbe{Kind: "resources", Item: "demo://resource/session/" + resource,
			Add: callProbe{Name: "gzip-file-as-resource", Want: "",
				Arguments: map[string]any{"name": resource, "data": "data:text/plain,hello"}}},
	}
}

func probeFilesystem(w workspace) probes {
	return probes{
		Tools: []string{"read_text_file", "list_allowed_directories"},
		Call:  &callProbe{Name: "read_text_file", Arguments: map[string]any{"path": w.file}, Want: fileText},
		Roots: &callProbe{Name: "list_allowed_directories", Want: w.root, Eventually: true},
	}
}

// probeGo has the probes of a goserver; board is the one of its resource templates
// that the others do not have, for a gateway asks one server about a URI.
func probeGo(tag, root, board string) probes {
	block := map[string]any{"key": tag}
	witness := func(state string) callProbe {
		return callProbe{Name: "witness", Arguments: map[string]any{"key": tag, "state": state}, Want: state}
	}
	item := "added-" + tag
	touched := "interop://" + board + "/" + tag
	return probes{
		Tools:     []string{"block", "change", "echo", "elicit", "log", "roots", "sample", "several", "steps", "touch", "witness"},
		Resources: []string{"interop://greeting"},
		Templates: []string{"interop://item/{id}"},
		Prompts:   []string{"welcome"},
		Call:      &callProbe{Name: "echo", Arguments: map[string]any{"text": "hello"}, Want: "echo: hello"},
		Progress:  &callProbe{Name: "steps", Steps: 3, Arguments: map[string]any{"steps": 3}, Want: "3 steps"},
		Cancel: &cancelProbe{Block: callProbe{Name: "block", Arguments: block},
			Started: witness("started"), Cancelled: witness("cancelled")},
		Log: &callProbe{Name: "log", Arguments: map[string]any{"text": "logged by " + tag}, Want: "logged by " + tag},
		Complete: []completeProbe{
			{Ref: map[string]string{"type": "ref/prompt", "name": "welcome"},
				Argument: map[string]string{"name": "language", "value": "n"}, Value: "nynorsk"},
			{Ref: map[string]string{"type": "ref/resource", "uri": "interop://item/{id}"},
				Argument: map[string]string{"name": "id", "value": "4"}, Value: "42"},
		},
		Read: []readProbe{
			{URI: "interop://greeting", Text: "hello"},
			{URI: "interop://item/42", Text: "item 42"},
		},
		Get:    &callProbe{Name: "welcome", Arguments: map[string]any{"language": "suomi"}, Want: "in suomi"},
		Elicit: &callProbe{Name: "elicit", Want: "accept: " + answerName},
		Sample: &callProbe{Name: "sample", Want: answerSample},
		Roots:  &callProbe{Name: "roots", Want: root},
		Several: &callProbe{Name: "several",
			Want: fmt.Sprintf("accept: %s\nfirst root: %s\n%s", answerName, root, answerSample)},
		Changes: &changeProbe{Kind: "tools", Item: item,
			Add:    callProbe{Name: "change", Arguments: map[string]any{"name": item}, Want: "added"},
			Remove: &callProbe{Name: "change", Arguments: map[string]any{"name": item, "remove": true}, Want: "removed"}},
		Updates: &updateProbe{URI: touched,
			Touch: callProbe{Name: "touch", Arguments: map[string]any{"uri": touched}, Want: "touched"}},
	}
}
