// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// TestValidatePaths checks that Validate reports each mistake in a Config made by a program
// with the path of the field, and nothing else.
func TestValidatePaths(t *testing.T) {
	token := func(principal, value string) config.Token {
		return config.Token{Principal: principal, Value: config.NewSecret(value)}
	}
	server := func(change func(*config.Backend)) config.Config {
		s := config.Backend{Name: "a", Command: "x"}
		change(&s)
		return config.Config{Servers: []config.Backend{s}}
	}
	secrets := func(name, value string) map[string]config.Secret {
		return map[string]config.Secret{name: config.NewSecret(value)}
	}
	remote := func(change func(*config.Backend)) config.Config {
		return server(func(s *config.Backend) { s.Command, s.URL = "", "https://h/"; change(s) })
	}
	prefix := "a b"
	tests := map[string]config.Config{
		"listen":                          {Listen: "nowhere"},
		"path":                            {Path: "mcp"},
		"allowedHosts[1]":                 {AllowedHosts: []string{"h", "h/"}},
		"allowedOrigins[0]":               {AllowedOrigins: []string{"null"}},
		"conflict":                        {Conflict: "war"},
		"log.level":                       {Log: config.Log{Level: "loud"}},
		"log.format":                      {Log: config.Log{Format: "song"}},
		"auth.tokens[0]":                  {Auth: config.Auth{Tokens: []config.Token{token("", "sesame")}}},
		"auth.tokens[1]":                  {Auth: config.Auth{Tokens: []config.Token{token("p", "sesame"), token("q", "sesame")}}},
		"auth.tokens[0].principal":        {Auth: config.Auth{Tokens: []config.Token{token("p\n", "sesame")}}},
		"allowUnauthenticated":            {AllowUnauthenticated: true, Auth: config.Auth{Tokens: []config.Token{token("p", "sesame")}}},
		"mcpServers.a":                    server(func(s *config.Backend) { s.Command = "" }),
		`mcpServers.a b`:                  server(func(s *config.Backend) { s.Name = "a b" }),
		"mcpServers.a.command":            server(func(s *config.Backend) { s.Command = "\x00" }),
		"mcpServers.a.args[1]":            server(func(s *config.Backend) { s.Args = []string{"", "\x00"} }),
		"mcpServers.a.type":               server(func(s *config.Backend) { s.Type = "http" }),
		"mcpServers.a.headers":            server(func(s *config.Backend) { s.Headers = secrets("A", "b") }),
		"mcpServers.a.prefix":             server(func(s *config.Backend) { s.Prefix = &prefix }),
		"mcpServers.a.era":                server(func(s *config.Backend) { s.Era = "stone" }),
		"mcpServers.a.include[0]":         server(func(s *config.Backend) { s.Include = []string{""} }),
		"mcpServers.a.exclude[1]":         server(func(s *config.Backend) { s.Exclude = []string{"a", "a"} }),
		"mcpServers.a.rename.b":           server(func(s *config.Backend) { s.Rename = map[string]string{"b": "b c"} }),
		`mcpServers.a.rename["b.c"]`:      server(func(s *config.Backend) { s.Rename = map[string]string{"b.c": ""} }),
		`mcpServers.a.env.A=`:             server(func(s *config.Backend) { s.Env = secrets("A=", "b") }),
		"mcpServers.a.env.A":              server(func(s *config.Backend) { s.Env = secrets("A", "\x00") }),
		"mcpServers.a.url":                remote(func(s *config.Backend) { s.URL = "h" }),
		"mcpServers.a.headers.A":          remote(func(s *config.Backend) { s.Headers = secrets("A", "\n") }),
		"mcpServers.a.headers.Host":       remote(func(s *config.Backend) { s.Headers = secrets("Host", "h") }),
		`mcpServers.a.headers[""]`:        remote(func(s *config.Backend) { s.Headers = secrets("", "h") }),
		"mcpServers.a.cwd":                remote(func(s *config.Backend) { s.Cwd = "/" }),
		"mcpServers.a.args":               remote(func(s *config.Backend) { s.Args = []string{"a"} }),
		"mcpServers.a.env":                remote(func(s *config.Backend) { s.Env = secrets("A", "b") }),
		`mcpServers.a.headers.A: B`:       remote(func(s *config.Backend) { s.Headers = secrets("A: B", "h") }),
		"mcpServers.a.headers.Mcp-Method": remote(func(s *config.Backend) { s.Headers = secrets("Mcp-Method", "h") }),
	}
	for path, c := range tests {
		problems, ok := errors.AsType[config.Problems](c.Validate())
		if !ok || len(problems) != 1 || problems[0].Path != path {
			t.Errorf("%s: %v, want one problem there", path, problems)
			continue
		}
		if p := problems[0]; p.File != "" || p.Line != 0 || p.Column != 0 || !strings.HasPrefix(p.String(), path+": ") {
			t.Errorf("%s: %+v stands in a file", path, p)
		}
	}
}

// TestValidateLeavesTheConfig checks that Validate does not change the Config, and can be
// repeated.
func TestValidateLeavesTheConfig(t *testing.T) {
	for _, s := range scripts(t, "configs") {
		t.Run(s.name(), func(t *testing.T) {
			s.enter(t)
			for _, c := range s.cases() {
				got, err := config.Parse(c.Name, c.Data, s.env())
				if err != nil {
					t.Fatal(err)
				}
				before := dump(t, got)
				if err := got.Validate(); err != nil {
					t.Errorf("%s: read, and not valid: %v", c.Name, err)
				}
				if err := got.Effective().Validate(); err != nil {
					t.Errorf("%s: not valid with its defaults: %v", c.Name, err)
				}
				if after := dump(t, got); after != before {
					t.Errorf("%s: changed by being judged:\n%s", c.Name, cmp.Diff(after, before))
				}
			}
		})
	}
}

// places returns the strings of a file, each as a config with it and the result. The documents
// list in which of them variables are replaced.
func places() []struct {
	name, text string
	of         func(*config.Config) string
	expands    bool
} {
	first := func(c *config.Config) *config.Backend { return &c.Servers[0] }
	return []struct {
		name, text string
		of         func(*config.Config) string
		expands    bool
	}{
		{"command", `{"mcpServers": {"a": {"command": %q}}}`, func(c *config.Config) string { return first(c).Command }, true},
		{"args", `{"mcpServers": {"a": {"command": "x", "args": [%q]}}}`, func(c *config.Config) string { return first(c).Args[0] }, true},
		{"env", `{"mcpServers": {"a": {"command": "x", "env": {"K": %q}}}}`, func(c *config.Config) string { return first(c).Env["K"].Reveal() }, true},
		{"cwd", `{"mcpServers": {"a": {"command": "x", "cwd": %q}}}`, func(c *config.Config) string { return first(c).Cwd }, true},
		{"url", `{"mcpServers": {"a": {"url": "http://%s/"}}}`, func(c *config.Config) string { return strings.Trim(strings.TrimPrefix(first(c).URL, "http:"), "/") }, true},
		{"headers", `{"mcpServers": {"a": {"url": "http://h/", "headers": {"K": %q}}}}`, func(c *config.Config) string { return first(c).Headers["K"].Reveal() }, true},
		{"listen", `{"mcpServers": {}, "listen": "127.0.0.1:%s"}`, func(c *config.Config) string { return strings.TrimPrefix(c.Listen, "127.0.0.1:") }, true},
		{"allowedHosts", `{"mcpServers": {}, "allowedHosts": [%q]}`, func(c *config.Config) string { return c.AllowedHosts[0] }, true},
		{"allowedOrigins", `{"mcpServers": {}, "allowedOrigins": ["http://%s"]}`, func(c *config.Config) string { return strings.TrimPrefix(c.AllowedOrigins[0], "http://") }, true},
		{"audit.file", `{"mcpServers": {}, "audit": {"file": %q}}`, func(c *config.Config) string { return c.Audit.File }, true},

		{"name", `{"mcpServers": {}, "name": %q}`, func(c *config.Config) string { return c.Name }, false},
		{"version", `{"mcpServers": {}, "version": %q}`, func(c *config.Config) string { return c.Version }, false},
		{"instructions", `{"mcpServers": {}, "instructions": %q}`, func(c *config.Config) string { return c.Instructions }, false},
		{"$schema", `{"mcpServers": {}, "$schema": %q}`, func(c *config.Config) string { return c.Schema }, false},
		{"renamed", `{"mcpServers": {"a": {"command": "x", "rename": {%q: "x"}}}}`, func(c *config.Config) string {
			for name := range first(c).Rename {
				return name
			}
			return ""
		}, false},
		{"principal", `{"mcpServers": {}, "auth": {"tokens": [{"principal": %q, "env": "TOKEN"}]}}`, func(c *config.Config) string { return c.Auth.Tokens[0].Principal }, false},
	}
}

// TestVariablesAreReplacedWhereDocumented checks the documents' list: only strings at its
// places are expanded.
func TestVariablesAreReplacedWhereDocumented(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"V": "8080", "TOKEN": "sesame-open-sesame"}[name]
		return v, ok
	}
	for _, p := range places() {
		for written, replaced := range map[string]string{"${V}": "8080", "${env:V}": "8080", "${NONE:-81}": "81", "$V": ""} {
			if written == "$V" && slices.Contains([]string{"url", "listen", "allowedHosts", "allowedOrigins"}, p.name) {
				continue // not a valid URL
			}
			want := written
			if p.expands && replaced != "" {
				want = replaced
			}
			c, err := config.Parse("x.json", fmt.Appendf(nil, strings.ReplaceAll(p.text, "%s", "%[1]s"), written), env)
			if err != nil {
				t.Errorf("%s, %s: %v", p.name, written, err)
				continue
			}
			if got := p.of(c); got != want {
				t.Errorf("%s: %s became %q, want %q", p.name, written, got, want)
			}
		}
	}
}

// TestUnsetVariables checks that an unset variable is reported by its name at the position of
// the value, at every place.
func TestUnsetVariables(t *testing.T) {
	for _, p := range places() {
		if !p.expands {
			continue
		}
		text := fmt.Sprintf(p.text, "${NONE}")
		problems := problemsIn("x.json", text, noEnv)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, "the environment variable NONE, which is not set") {
			t.Errorf("%s: %v, want one problem with the name of the variable", p.name, problems)
			continue
		}
		if start := strings.LastIndex(text[:strings.Index(text, "${")], `"`); problems[0].Column != start+1 {
			t.Errorf("%s: %v, want it at column %d", p.name, problems[0], start+1)
		}
	}
}

// TestPathsAreOfTheFolder checks that paths in a file are independent of the working
// directory, and that no other key is a path.
func TestPathsAreOfTheFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, folder := range []string{"conf/sub", "records", "conf/records"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ file, written, want string }{
		{"x.yaml", "records/f", "records/f"},
		{"x.yaml", "./records/../records/f", "records/f"},
		{"conf/x.yaml", "records/f", "conf/records/f"},
		{"conf/x.yaml", "../records/f", "records/f"},
		{"conf/sub/x.yaml", "../records/f", "conf/records/f"},
		{"./conf/x.yaml", "records/f", "conf/records/f"},
		{"conf/x.yaml", filepath.Join(dir, "records/f"), filepath.Join(dir, "records/f")},
		{filepath.Join(dir, "conf/x.yaml"), "records/f", filepath.Join(dir, "conf/records/f")},
		{"conf/x.yaml", "${FOLDER}/f", filepath.Join(dir, "records/f")},
	}
	env := func(name string) (string, bool) { return filepath.Join(dir, "records"), name == "FOLDER" }
	for _, tt := range tests {
		text := fmt.Sprintf("mcpServers: {a: {command: bin/x, args: [bin/y], cwd: %[1]q}}\naudit: {file: %[1]q}\n", tt.written)
		c, err := config.Parse(tt.file, []byte(text), env)
		if err != nil {
			t.Errorf("%s in %s: %v", tt.written, tt.file, err)
			continue
		}
		got := []string{c.Servers[0].Cwd, c.Audit.File, c.Servers[0].Command, c.Servers[0].Args[0]}
		if diff := cmp.Diff(got, []string{tt.want, tt.want, "bin/x", "bin/y"}); diff != "" {
			t.Errorf("%s in %s (-got +want):\n%s", tt.written, tt.file, diff)
		}
	}
}

// TestRulesMeanWhatTheCatalogDoes checks that the catalog offers the names that the rules of a
// file permit, with the prefixes and new names of the file.
func TestRulesMeanWhatTheCatalogDoes(t *testing.T) {
	patterns := []string{"*", "a*", "*b", "a*b", "ab", "a", "*a*b*", "b**", "a.b", "a_*"}
	names := []string{"a", "b", "ab", "ba", "aab", "abb", "a.b", "a_b", "axb", "bab", "bb", "c"}
	var tools []json.RawMessage
	for _, name := range names {
		tools = append(tools, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	prefix := "p."
	for _, include := range append(patterns, "") {
		for _, exclude := range append(patterns, "") {
			s := config.Backend{Name: "s", Prefix: &prefix, Rename: map[string]string{"ab": "other"}}
			if include != "" {
				s.Include = []string{include, "bb"}
			}
			if exclude != "" {
				s.Exclude = []string{exclude}
			}
			backend := catalog.Backend{
				Name: s.Name, State: catalog.Live,
				Rules: catalog.Rules{Prefix: s.Prefix, Rename: s.Rename, Include: s.Include, Exclude: s.Exclude},
			}
			backend.Lists[catalog.Tools].Items = tools
			offered := make(map[string]string)
			for e := range catalog.Build([]catalog.Backend{backend}, catalog.Options{}).Entries(catalog.Tools) {
				offered[e.Own] = e.Name
			}
			want := make(map[string]string)
			for _, name := range names {
				switch {
				case !s.Offers(name):
				case s.Rename[name] != "":
					want[name] = s.Rename[name]
				default:
					want[name] = s.NamePrefix() + name
				}
			}
			if diff := cmp.Diff(offered, want); diff != "" {
				t.Errorf("include %q, exclude %q (-catalog +config):\n%s", s.Include, s.Exclude, diff)
			}
		}
	}
}

// TestSchemaDescribesEverything checks that the schema has a description for each key, in the
// order of the documents, and no unknown keys.
func TestSchemaDescribesEverything(t *testing.T) {
	data, err := json.Marshal(config.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	objects := 0
	var walk func(at string, value any)
	walk = func(at string, value any) {
		object, ok := value.(map[string]any)
		if !ok {
			return
		}
		properties, _ := object["properties"].(map[string]any)
		if properties != nil {
			objects++
			if object["additionalProperties"] != false {
				t.Errorf("%s takes keys that it does not know: %v", at, object["additionalProperties"])
			}
		}
		for name, property := range properties {
			text, _ := property.(map[string]any)["description"].(string)
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s.%s is described as %q", at, name, text)
			}
		}
		for name, below := range object {
			walk(at+"."+name, below)
		}
	}
	walk("", schema)
	if objects != 30 { // the file, TLS, a profile, pins, search, results twice, auth, a token, an issuer, introspection, certificates, a proxy, a browser, a quota, limits, state, credentials, drain, log, metrics, audit, policy, a rule, a filter, a redaction, a server, oauth, an authorization server, a helper
		t.Errorf("%d objects are described", objects)
	}
	if id := schema["$id"]; id == nil || schema["$schema"] == nil || schema["title"] == nil {
		t.Errorf("the schema says of itself: $id %v, $schema %v, title %v", id, schema["$schema"], schema["title"])
	}
}

// TestSchemaIsFresh checks that a caller may modify the returned schema.
func TestSchemaIsFresh(t *testing.T) {
	one := config.Schema()
	one.Properties["listen"].Description = "mine"
	delete(one.Properties, "path")
	one.Defs["server"].Properties["command"] = nil
	if two := config.Schema(); two.Properties["listen"].Description == "mine" || two.Properties["path"] == nil || two.Defs["server"].Properties["command"] == nil {
		t.Error("a second schema has the changes of the first")
	}
}

// TestSecretsCanBeCompared checks that two Configs of one file are equal with secrets, which
// is how changes are found.
func TestSecretsCanBeCompared(t *testing.T) {
	parse := func(value string) *config.Config {
		t.Helper()
		c, err := config.Parse("x.yaml", []byte("mcpServers: {a: {command: x, env: {K: "+value+"}}}\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if !reflect.DeepEqual(parse("sesame"), parse("sesame")) {
		t.Error("the same file twice differs")
	}
	if reflect.DeepEqual(parse("sesame"), parse("barley")) {
		t.Error("two secrets are the same")
	}
}
