// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// explained are servers and the gateway of a configuration file with all of them.
type explained struct {
	*gatewaytest.Gateway
	file string
	now  time.Time
}

func openExplained(t *testing.T, servers gatewaytest.Backends, text string) *explained {
	t.Helper()
	way := gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := servers[r.Host]; s != nil {
			s.ServeHTTP(w, r)
			return
		}
		http.Error(w, "no such server", http.StatusBadGateway)
	}))
	e := &explained{file: filepath.Join(t.TempDir(), "signalbox.yaml")}
	e.Gateway = gatewaytest.Open(t, *e.parse(t, text), signalbox.Options{Transport: way})
	e.now = time.Now()
	return e
}

func (e *explained) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(e.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// parse writes the file and parses it.
func (e *explained) parse(t *testing.T, text string) *config.Config {
	t.Helper()
	e.write(t, text)
	cfg, err := config.Load(e.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// explain returns the explanation of a name in short lines.
func (e *explained) explain(name string) string {
	x := e.G.Explain(name, "")
	var lines []string
	line := func(format string, args ...any) {
		lines = append(lines, strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), e.file, "FILE"))
	}
	for _, it := range x.Items {
		var chain []string
		for _, s := range it.Chain {
			if s.Position != "" {
				s.Text += " (" + s.Position + ")"
			}
			chain = append(chain, s.Text)
		}
		line("%s %s of %s %s, offered %v: %s. %s %s", it.Kind, it.Name, it.Backend.Name, it.Backend.State, it.Offered, strings.Join(chain, " > "), it.Summary, it.Code)
		if it.Fix != "" {
			line("fix: %s", it.Fix)
		}
	}
	if x.Route != nil {
		line("route %s %s", x.Route.Backend, x.Route.Template)
	}
	for _, f := range x.Former {
		line("former %s %s of %s until %v, %s", f.Kind, f.Own, f.Backend, f.Until.Sub(e.now).Round(time.Second), f.Cause)
	}
	for _, b := range x.Unreached {
		line("%s may have it and is %s", b.Name, b.State)
	}
	for _, text := range x.Incomplete {
		line("incomplete: %s", text)
	}
	if x.Server != nil {
		line("a server, %s, %d tools", x.Server.State, x.Server.Tools)
	}
	if x.Disabled != "" {
		line("disabled: %s", x.Disabled)
	}
	if x.Meant != "" {
		line("meant: %s", x.Meant)
	}
	return strings.Join(lines, "\n")
}

// wantExplained reports an error if the explanation of a name differs.
func (e *explained) wantExplained(name string, want ...string) {
	e.T.Helper()
	if diff := cmp.Diff(strings.Split(e.explain(name), "\n"), want); diff != "" {
		e.T.Errorf("why %s (-got +want):\n%s", name, diff)
	}
}

// Each rule that decides about an item is in its explanation, with its position in the file, and
// only names that tools/list has are explained as offered.
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := gatewaytest.ServerWithTools(true, "read", "write_file", "stat", "find", "read", strings.Repeat("n", 60))
		bad := gatewaytest.ServerWithTools(true)
		bad.On["tools/list"] = gatewaytest.ResultHandler(`{"tools":[{"name":"none"},{"name":"large","inputSchema":{"type":"object","description":"` + strings.Repeat("x", 2000) + `"}},{"name":"found","inputSchema":{"type":"object"}}]}`)
		notes := gatewaytest.ServerWithTools(true, "found")
		notes.Capabilities = `{"tools":{},"prompts":{},"resources":{}}`
		notes.On["prompts/list"] = gatewaytest.ResultHandler(`{"prompts":[{"name":"greet"}]}`)
		notes.On["resources/list"] = gatewaytest.ResultHandler(`{"resources":[{"uri":"note:1","name":"one"}]}`)
		notes.On["resources/templates/list"] = gatewaytest.ResultHandler(`{"resourceTemplates":[{"uriTemplate":"note:{n}","name":"n"}]}`)
		e := openExplained(t, gatewaytest.Backends{"files": files, "bad": bad, "notes": notes}, `limits: {schema: 1KiB}
mcpServers:
  files:
    url: http://files/mcp
    include: ["*"]
    exclude: ["write_*"]
    rename: {find: found}
  bad: {url: "http://bad/mcp", prefix: ""}
  notes: {url: "http://notes/mcp", prefix: "", include: [found]}
  gone: {url: "http://gone/mcp"}
  off: {url: "http://off/mcp", disabled: true}
`)
		e.wantExplained("files__read",
			`tool files__read of files live, offered false: listed > a second time; the first one counts.`,
			`tool files__read of files live, offered true: listed > include "*" (FILE:5:15) > prefix "files__".`)
		e.wantExplained("files__write_file", `tool files__write_file of files live, offered false: listed > exclude "write_*" (FILE:6:15).`)
		e.wantExplained("stat", `tool files__stat of files live, offered true: listed > include "*" (FILE:5:15) > prefix "files__".`)
		e.wantExplained("files__find",
			`tool found of files live, offered false: listed > include "*" (FILE:5:15) > renamed "found" (FILE:7:14) > conflict: hide. Several items would have the name found: "find" of files, renamed "found" (FILE:7:14); "found" of bad, empty prefix (FILE:8:32); "found" of notes, empty prefix (FILE:9:36); conflict: hide. SB_NAME_CONFLICT`,
			`fix: rename one of them, or set conflict: first`)
		e.wantExplained("files__"+strings.Repeat("n", 60),
			`tool files__`+strings.Repeat("n", 60)+` of files live, offered true: listed > include "*" (FILE:5:15) > prefix "files__" > with a name that model providers reject: 67 characters, of at most 64 letters, digits, _ and -.  SB_NAME_LONG`,
			`fix: set a short prefix, or rename it`)
		e.wantExplained("none", `tool none of bad live, offered false: listed > it has no inputSchema.`)
		e.wantExplained("large",
			`tool large of bad live, offered false: listed > its inputSchema has 2034 bytes, more than the limit of 1024 (limits.schema).  SB_ITEM_TOO_LARGE`,
			`fix: raise limits.schema`)
		e.wantExplained("greet", `prompt greet of notes live, offered false: listed as a prompt > no pattern of include matches "greet" (FILE:9:48).`)
		e.wantExplained("note:1", `resource note:1 of notes live, offered true: listed as a resource.`)
		e.wantExplained("note:{n}", `resource template note:{n} of notes live, offered true: listed as a resource template.`)
		e.wantExplained("note:2", `route notes note:{n}`)
		e.wantExplained("other:2", `route notes`)
		e.wantExplained("gone__x", "gone may have it and is down")
		e.wantExplained("gone", "a server, down, 0 tools")
		e.wantExplained("files", "a server, live, 6 tools")
		e.wantExplained("off__x", "disabled: FILE:11:32")
		e.wantExplained("files__raed", "meant: files__read")
		e.wantExplained("raed", "meant: files__read")
		e.wantExplained("nothing-like-it", "")
		e.checkOffered("files__read", "files__write_file", "stat", "found", "none", "greet", "files__"+strings.Repeat("n", 60), "gone__x", "files")
	})
}

// checkOffered compares explanations with the list of tools.
func (e *explained) checkOffered(names ...string) {
	e.T.Helper()
	var got struct {
		Result struct{ Tools []struct{ Name string } }
	}
	body := e.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), e.Legacy()).Body
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Result.Tools) == 0 {
		e.T.Fatalf("%s: %v", body, err)
	}
	var listed []string
	for _, tool := range got.Result.Tools {
		listed = append(listed, tool.Name)
	}
	for _, name := range append(names, listed...) {
		if is := slices.Contains(listed, name); is != e.G.Explain(name, "").Offered {
			e.T.Errorf("%s: listed %v, and explained as %v", name, is, !is)
		}
	}
}

// With conflict: first, an item without its name is explained by the one that has it.
func TestExplainFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := gatewaytest.ServerWithTools(true, "echo"), gatewaytest.ServerWithTools(true, "echo")
		for _, s := range []*faultyserver.HTTP{a, b} {
			s.Capabilities = `{"tools":{},"resources":{}}`
			s.On["resources/list"] = gatewaytest.ResultHandler(`{"resources":[{"uri":"x:1","name":"one"}]}`)
		}
		const text = `conflict: first
mcpServers:
  a: {url: "http://a/mcp", prefix: ""}
  b: {url: "http://b/mcp", prefix: ""}
`
		e := openExplained(t, gatewaytest.Backends{"a": a, "b": b}, text)
		e.wantExplained("echo",
			`tool echo of a live, offered true: listed > empty prefix (FILE:3:28).`,
			`tool echo of b live, offered false: listed > empty prefix (FILE:4:28) > "echo" of server a has the name first; conflict: first (FILE:1:1).  SB_NAME_CONFLICT`,
			`fix: rename one of them`)
		e.wantExplained("x:1",
			`resource x:1 of a live, offered true: listed as a resource.`,
			`resource x:1 of b live, offered false: listed as a resource > server a lists it first.  SB_NAME_CONFLICT`)
		e.checkOffered("echo")

		// The other policy, and positions of a file that has changed since.
		if err := e.G.Reload(t.Context(), *e.parse(t, strings.TrimPrefix(text, "conflict: first\n"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		const summary = `listed > empty prefix (FILE:2:28) > conflict: hide. Servers a and b both list it under the empty prefix (FILE:2,3); conflict: hide. SB_NAME_CONFLICT`
		if got := e.explain("echo"); !strings.Contains(got, summary) {
			t.Errorf("why echo:\n%s", got)
		}
		e.write(t, strings.ReplaceAll(text, `prefix: ""`, `prefix: p`)+"not: valid")
		if got := e.explain("echo"); !strings.Contains(got, "listed > empty prefix > conflict: hide. Servers a and b both list it under the empty prefix; conflict: hide.") {
			t.Errorf("why echo:\n%s", got)
		}
	})
}

// A name that has left the lists is known with the cause, also of a server that was removed.
func TestExplainFormer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(true, "boom", "bloom")
		s.Capabilities = `{"tools":{"listChanged":true}}`
		const text = "mcpServers:\n  g: {url: http://g/mcp}\n  h: {url: http://h/mcp}\n"
		other := gatewaytest.ServerWithTools(true, "walk")
		e := openExplained(t, gatewaytest.Backends{"g": s, "h": other}, text)
		e.wantExplained("boom", `tool g__boom of g live, offered true: listed > prefix "g__".`)
		time.Sleep(10 * time.Second)
		other.On["tools/list"] = gatewaytest.ResultHandler(gatewaytest.ToolList("run"))
		time.Sleep(2 * time.Minute)
		lists := e.Legacy()
		e.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), lists) // the list of h is old
		time.Sleep(2 * time.Second)
		e.wantExplained("h__walk", "former tool walk of h until 2m10s, listed again")
		if err := e.G.Reload(t.Context(), *e.parse(t, "mcpServers:\n  g: {url: http://g/mcp}\n")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		e.wantExplained("h__run", "former tool run of h until 2m12s, removed")
	})
}

// A tool that a server lists only for clients with certain capabilities is explained with those
// that the clients lack which have come.
func TestExplainCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := gatewaytest.Backends{"b": newGrowing()}.Open(t, nil)
		e := &explained{Gateway: h, file: "no file"}
		const all = `tool b__ask of b live, offered true: listed > prefix "b__"`
		e.wantExplained("b__ask", all+".")
		if bare := legacyWith(h, `{}`); lists(h, "b__ask", bare) {
			t.Fatal("a client without capabilities has it")
		}
		e.wantExplained("b__ask", all+" > not to clients without elicitation, URL elicitation, sampling and roots.")
		e.wantExplained("b__grow", `tool b__grow of b live, offered true: listed > prefix "b__".`)
	})
}

// A name that may be beyond a limit, or of a server that cannot be reached any more.
func TestExplainIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(true, "one", "two", "three")
		e := openExplained(t, gatewaytest.Backends{"a": s}, `limits: {toolsPerBackend: 2}
mcpServers:
  a: {url: "http://a/mcp"}
`)
		e.wantExplained("a__three", "incomplete: server a: tools/list: only the first 2 items are kept (limits.toolsPerBackend)")
		e.wantExplained("a__two", `tool a__two of a live, offered true: listed > prefix "a__".`)
		s.On["tools/list"] = func(x *faultyserver.Exchange) { x.Status(http.StatusBadGateway, "", "") }
		time.Sleep(2 * time.Minute)
		e.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), e.Legacy())
		time.Sleep(2 * time.Second)
		e.wantExplained("a__two", `tool a__two of a stale, offered true: listed > prefix "a__".`)
	})
}
