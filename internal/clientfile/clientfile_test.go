// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package clientfile_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/signalbox-mcp/signalbox/internal/clientfile"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

var update = flag.Bool("update", false, "rewrite testdata/dialects.txt")

func onHTTP() clientfile.Gateway { return clientfile.Gateway{URL: "http://127.0.0.1:7777/mcp"} }

func program() clientfile.Gateway {
	return clientfile.Gateway{Command: `C:\bin\signalbox.exe`, Args: []string{"attach", "--config", "/home/me/a b/signalbox.yaml", "--profile", "coding"}}
}

// others returns the tree of a file without the gateway's entry, and without containers that
// are empty then: what must be the same before and after.
func others(t *testing.T, f clientfile.File) string {
	t.Helper()
	root, err := configedit.File{Name: f.Path, Text: f.Text, Foreign: true}.Tree()
	if err != nil {
		t.Fatalf("%s: %v\n%s", f.Path, err, f.Text)
	}
	if root.Kind == configfile.Null {
		return "{}" // an empty file
	}
	return plain(root)
}

func plain(n configfile.Node) string {
	var parts []string
	for _, m := range n.Members {
		if m.Key == clientfile.Name {
			continue
		}
		value := plain(m.Value)
		if strings.Contains(" mcp servers mcpServers extensions context_servers mcp_servers amp.mcpServers ", " "+m.Key+" ") && slices.Contains([]string{"[]", "{}", "0"}, value) {
			continue
		}
		parts = append(parts, fmt.Sprintf("%q: %s", m.Key, value))
	}
	for _, item := range n.Items {
		if name, _ := item.Member("name"); name.Text != clientfile.Name {
			parts = append(parts, plain(item))
		}
	}
	switch n.Kind {
	case configfile.Mapping:
		return "{" + strings.Join(parts, ", ") + "}"
	case configfile.List:
		return "[" + strings.Join(parts, ", ") + "]"
	case configfile.Null:
		return "0"
	default:
		return fmt.Sprintf("%d%q", n.Kind, n.Text)
	}
}

// comments returns the comments of a file that has them on lines of their own.
func comments(text []byte) []string {
	var found []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//") {
			found = append(found, line)
		}
	}
	return found
}

// roundTrip connects a file and disconnects it, checks what each step must keep, and returns
// the text after it.
func roundTrip(t *testing.T, f clientfile.File, g clientfile.Gateway) []byte {
	t.Helper()
	before, kept := others(t, f), comments(f.Text)
	connected := f
	var err error
	if connected.Text, err = f.Connect(g); err != nil {
		t.Fatalf("%v\n%s", err, f.Text)
	}
	check := func(what string, now clientfile.File) {
		t.Helper()
		if diff := cmp.Diff(before, others(t, now)); diff != "" {
			t.Errorf("%s changed something else:\n%s\n%s", what, diff, now.Text)
		}
		if diff := cmp.Diff(kept, comments(now.Text)); diff != "" {
			t.Errorf("%s changed comments:\n%s", what, diff)
		}
		if bytes.Contains(f.Text, []byte("\r\n")) && bytes.Count(now.Text, []byte("\n")) != bytes.Count(now.Text, []byte("\r\n")) {
			t.Errorf("%s mixed the line breaks:\n%q", what, now.Text)
		}
	}
	check("connect", connected)
	want, err := g.HashOf(f.Client)
	if got, herr := connected.Hash(); got != want || want == "" || err != nil || herr != nil {
		t.Fatalf("the hash of the entry is %s, %v; want %s, %v\n%s", got, herr, want, err, connected.Text)
	}
	if got, found, err := connected.Gateway(); !found || err != nil || !cmp.Equal(got, g) {
		t.Fatalf("the entry is read as %+v, %v, %v; want %+v\n%s", got, found, err, g, connected.Text)
	}
	// The entry is the gateway for an import, too.
	result, err := imports.Read(imports.Source{File: f.Path, Client: f.Client.ID, Dialect: f.Client.Dialect}, connected.Text)
	if err != nil || !slices.ContainsFunc(result.Notes, func(n imports.Note) bool {
		return n.Text == `"signalbox" is not imported: it is this gateway`
	}) {
		t.Fatalf("the entry is not recognized: %v %+v\n%s", err, result, connected.Text)
	}
	again := connected
	if again.Text, err = connected.Connect(g); err != nil || !hashIs(t, again, want) {
		t.Fatalf("connect again: %v\n%s", err, again.Text)
	}
	check("connect again", again)
	apart := connected
	if apart.Text, err = connected.Disconnect(); err != nil || !hashIs(t, apart, "") {
		t.Fatalf("disconnect: %v\n%s", err, connected.Text)
	}
	check("disconnect", apart)
	return apart.Text
}

func hashIs(t *testing.T, f clientfile.File, want string) bool {
	t.Helper()
	got, err := f.Hash()
	return err == nil && got == want
}

// TestCorpus connects all clients in files as they are found in public repositories.
func TestCorpus(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("../imports/testdata/corpus/*.txtar")
	if err != nil || len(archives) != len(clients.IDs()) {
		t.Fatalf("%d archives: %v", len(archives), err)
	}
	edited, refused := 0, 0
	for _, archive := range archives {
		client, _ := clients.ByID(strings.TrimSuffix(filepath.Base(archive), ".txtar"))
		files, err := txtar.ParseFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files.Files {
			f := clientfile.File{Client: client, Path: filepath.Base(archive) + "/" + file.Name, Text: file.Data}
			if strings.HasSuffix(file.Name, ".want") || client.ID == "continue" && !strings.HasSuffix(file.Name, "yaml") {
				continue
			}
			if hash, err := f.Hash(); err != nil || hash != "" {
				refused++
				continue
			}
			if _, err := f.Connect(onHTTP()); err != nil {
				t.Logf("refused: %v", err)
				refused++
				continue
			}
			edited++
			t.Run(f.Path, func(t *testing.T) {
				t.Parallel()
				crlf, cut := f, f
				crlf.Text = bytes.ReplaceAll(f.Text, []byte("\n"), []byte("\r\n"))
				cut.Text = bytes.TrimRight(f.Text, "\n")
				roundTrip(t, f, onHTTP())
				roundTrip(t, crlf, program())
				setAllAside(t, f)
				if !testing.Short() {
					roundTrip(t, cut, onHTTP())
					roundTrip(t, cut, program())
					roundTrip(t, crlf, onHTTP())
					roundTrip(t, f, program())
				}
			})
		}
	}
	t.Logf("%d files edited, %d refused", edited, refused)
	if edited < 100 {
		t.Errorf("%d files edited, %d refused", edited, refused)
	}
}

// setAllAside disables or removes all servers of a file that are enabled.
func setAllAside(t *testing.T, f clientfile.File) {
	t.Helper()
	enabled := func(text []byte) (servers []clientfile.Server) {
		result, err := imports.Read(imports.Source{File: f.Path, Client: f.Client.ID, Dialect: f.Client.Dialect}, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, s := range result.Servers {
			if !s.Disabled {
				servers = append(servers, clientfile.Server{Name: s.Original, Line: s.Origins[0].Line})
			}
		}
		return servers
	}
	before := enabled(f.Text)
	text, disabled, removed, err := f.SetAside(slices.Clone(before))
	if err != nil && strings.Contains(err.Error(), "duplicate key") {
		return // which of the two is meant is not known
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, f.Text)
	}
	if after := enabled(text); len(after) != len(before)-len(disabled)-len(removed) {
		t.Errorf("%d enabled, %q disabled, %q removed, and %v left:\n%s", len(before), disabled, removed, after, text)
	}
	if diff := cmp.Diff(comments(f.Text), comments(text)); diff != "" && len(removed) == 0 {
		t.Errorf("comments changed:\n%s", diff)
	}
}

// TestRandom connects clients in files with random content and comments.
func TestRandom(t *testing.T) {
	t.Parallel()
	for _, client := range clients.All() {
		t.Run(client.ID, func(t *testing.T) {
			t.Parallel()
			seeds := uint64(200)
			if testing.Short() {
				seeds = 10
			}
			for seed := range seeds {
				f := randomFile(rand.New(rand.NewPCG(seed, 1)), client)
				g := onHTTP()
				if seed%2 == 1 {
					g = program()
				}
				after := roundTrip(t, f, g)
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, f.Text)
				}
				// With another server, the file has the same bytes again, except that TOML has
				// a line break at its end.
				same := bytes.Equal(after, f.Text) || client.Dialect == clients.Codex && bytes.Equal(bytes.TrimRight(after, "\r\n"), bytes.TrimRight(f.Text, "\r\n"))
				if bytes.Contains(f.Text, []byte("server 0")) && !same {
					t.Fatalf("seed %d: after connect and disconnect:\n%s", seed, cmp.Diff(string(f.Text), string(after)))
				}
			}
		})
	}
}

// randomFile writes a file of a client with some servers, some comments and some settings.
func randomFile(r *rand.Rand, c clients.Client) clientfile.File {
	f := clientfile.File{Client: c}
	some := func() bool { return r.IntN(2) == 0 }
	var names []string
	for i := range r.IntN(4) {
		names = append(names, fmt.Sprintf("server %d", i))
	}
	var b strings.Builder
	comment := func(indent, mark string) {
		for range r.IntN(3) {
			b.WriteString(indent + mark + " a comment: {[\" é\n")
		}
	}
	switch c.Dialect {
	case clients.Codex:
		f.Path = "config.toml"
		comment("", "#")
		b.WriteString("model = \"x\"\n")
		for _, name := range names {
			fmt.Fprintf(&b, "\n[mcp_servers.%q]\ncommand = \"x\" # é\nargs = [\n  \"a\",\n]\n", name)
			comment("", "#")
		}
		if some() {
			b.WriteString("[[hooks]]\nrun = '''\nx\n'''\n")
		}
	case clients.Continue, clients.Goose:
		f.Path = "config.yaml"
		indent := strings.Repeat(" ", r.IntN(3))
		item := indent + "- name: %q\n" + indent + "  command: x # é\n"
		if c.Dialect == clients.Goose {
			indent += " "
			item = indent + "%q:\n" + indent + "  cmd: x\n"
		}
		comment("", "#")
		b.WriteString("name: x\n")
		if len(names) > 0 || some() {
			b.WriteString(c.Key + ":\n")
		}
		for _, name := range names {
			comment(indent, "#")
			fmt.Fprintf(&b, item, name)
		}
		comment("", "#")
		b.WriteString("last: {a: 1}\n")
	default:
		f.Path = "settings.jsonc"
		unit := []string{"\t", "  ", "    "}[r.IntN(3)]
		comma := ""
		if some() {
			comma = ","
		}
		b.WriteString("{\n")
		comment(unit, "//")
		b.WriteString(unit + "\"first\": [1, \"a\"]")
		if len(names) > 0 || some() {
			fmt.Fprintf(&b, ",\n%s%q: {", unit, c.Key)
			for i, name := range names {
				b.WriteString("\n")
				comment(unit+unit, "//")
				fmt.Fprintf(&b, "%s%q: {\"command\": \"x\" /* é */, \"args\": [], \"type\": \"local\"}", unit+unit, name)
				if i < len(names)-1 {
					b.WriteString(",")
				}
			}
			b.WriteString("\n" + unit + "}")
		}
		b.WriteString(comma + "\n}")
	}
	text := b.String()
	if some() {
		text += "\n"
	}
	if some() {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	f.Text = []byte(text)
	return f
}

// TestDialects shows what is written for each client.
func TestDialects(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, c := range clients.All() {
		name := "x.json"
		switch c.Dialect {
		case clients.Continue, clients.Goose:
			name = "x.yaml"
		case clients.Codex:
			name = "x.toml"
		default:
		}
		for _, g := range []clientfile.Gateway{onHTTP(), {Command: "/bin/signalbox", Args: []string{"attach", "--config", "/c.yaml"}}} {
			if g.URL != "" && !clientfile.SpeaksHTTP(c) {
				continue
			}
			text, err := clientfile.File{Client: c, Path: name}.Connect(g)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "-- %s --\n%s", c.ID, text)
		}
	}
	golden, err := os.ReadFile("testdata/dialects.txt")
	if diff := cmp.Diff(string(golden), out.String()); diff != "" || err != nil {
		t.Errorf("testdata/dialects.txt is not as it is written: %v\n%s", err, diff)
		if *update {
			t.Log(os.WriteFile("testdata/dialects.txt", []byte(out.String()), 0o600))
		}
	}
}

func TestSetAside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		client, file, text string
		names              string
		disabled, removed  string
		want               string
	}{
		{
			"cursor", "mcp.json", "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"},\n  \"b\": {\"command\": \"x\"}, // b\n  \"signalbox\": {\"url\": \"x\"}\n}}\n", "a b signalbox", "", "a b",
			"{\"mcpServers\": {\n  \"signalbox\": {\"url\": \"x\"}\n}}\n",
		},
		{
			"cline", "mcp.json", "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"},\n  \"b\": {\"command\": \"x\", \"disabled\": false}\n}}\n", "b a", "a b", "",
			"{\"mcpServers\": {\n  \"a\": {\"command\": \"x\", \"disabled\": true},\n  \"b\": {\"command\": \"x\", \"disabled\": true}\n}}\n",
		},
		{
			"codex", "config.toml", "[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers]\nb = {command = \"x\"}\n", "a b", "a", "b",
			"[mcp_servers.a]\ncommand = \"x\"\nenabled = false\n\n[mcp_servers]\n",
		},
		{
			"continue", "config.yaml", "mcpServers:\n  - name: a\n    command: x\n  - name: b\n    command: x\n  - name: c\n    command: x\n", "c a", "", "a c",
			"mcpServers:\n  - name: b\n    command: x\n",
		},
		{
			"opencode", "opencode.json", "{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"x\"]}}}", "a", "a", "",
			"{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"x\"], \"enabled\": false}}}",
		},
		{
			"opencode", "opencode.json", "{\"mcp\": {\"servers\": {\"a\": {\"type\": \"local\", \"command\": [\"x\"]}}}}", "a", "", "a",
			"{\"mcp\": {\"servers\": {}}}",
		},
		{ // the entry of a project with the same name is not the user's
			"claude-code", ".claude.json", "{\"projects\": {\"/p\": {\"mcpServers\": {\n  \"a\": {\"command\": \"x\"}\n}}},\n\"mcpServers\": {}}\n", "a", "", "",
			"{\"projects\": {\"/p\": {\"mcpServers\": {\n  \"a\": {\"command\": \"x\"}\n}}},\n\"mcpServers\": {}}\n",
		},
	} {
		t.Run(tt.client, func(t *testing.T) {
			t.Parallel()
			client, _ := clients.ByID(tt.client)
			f := clientfile.File{Client: client, Path: tt.file, Text: []byte(tt.text)}
			result, err := imports.Read(imports.Source{File: tt.file, Client: tt.client, Dialect: client.Dialect}, f.Text)
			if err != nil {
				t.Fatal(err)
			}
			var servers []clientfile.Server
			for name := range strings.FieldsSeq(tt.names) {
				for _, s := range result.Servers {
					if s.Original == name {
						servers = append(servers, clientfile.Server{Name: name, Line: s.Origins[0].Line})
					}
				}
			}
			text, disabled, removed, err := f.SetAside(servers)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(text)); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(disabled, " ") + "|" + strings.Join(removed, " "); got != tt.disabled+"|"+tt.removed {
				t.Errorf("disabled|removed %s", got)
			}
		})
	}
}
