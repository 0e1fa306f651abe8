// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// The limit of a server or a client applies in place of that of all, and the smaller one of both.
func TestMaxResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		results, server string
		client          string
		want            int64 // KiB
		cuts            bool
	}{
		{`{}`, ``, "codex", 0, false},
		{`{"max": "16KiB"}`, ``, "codex", 16, true},
		{`{"max": "none"}`, ``, "codex", 0, false},
		{`{"max": "16KiB"}`, `{"max": "8KiB"}`, "codex", 8, true},
		{`{"max": "16KiB"}`, `{"max": "32KiB"}`, "codex", 32, true},
		{`{"max": "16KiB"}`, `{"max": "none"}`, "codex", 0, true},
		{`{"max": "16KiB"}`, `{}`, "codex", 16, true},
		{`{}`, `{"max": "8KiB"}`, "codex", 8, true},
		{`{"clients": {"codex": "8KiB"}}`, ``, "codex", 8, true},
		{`{"clients": {"codex": "8KiB"}}`, ``, "cursor", 0, true},
		{`{"clients": {"codex": "none"}}`, ``, "codex", 0, false},
		{`{"max": "16KiB", "clients": {"codex": "32KiB"}}`, ``, "codex", 32, true},
		{`{"max": "16KiB", "clients": {"codex": "none"}}`, ``, "codex", 0, true},
		{`{"clients": {"codex": "8KiB"}}`, `{"max": "32KiB"}`, "codex", 8, true},
		{`{"clients": {"codex": "32KiB"}}`, `{"max": "8KiB"}`, "codex", 8, true},
		{`{"clients": {"codex": "none"}}`, `{"max": "8KiB"}`, "codex", 8, true},
		{`{"clients": {"codex": "8KiB"}}`, `{"max": "none"}`, "codex", 0, true},
	} {
		server := `"command": "x"`
		if tt.server != "" {
			server += `, "results": ` + tt.server
		}
		c := parsed(t, `{"mcpServers": {"a": {`+server+`}}, "results": `+tt.results+`}`).Effective()
		if got := c.MaxResult("a", tt.client); got != tt.want<<10 || c.CutsResults() != tt.cuts {
			t.Errorf("%s, %s: %d, %t", tt.results, tt.server, got, c.CutsResults())
		}
		if got := c.MaxResult("in the process", ""); got != max(0, c.Results.Max) {
			t.Errorf("%s: %d for another server", tt.results, got)
		}
	}
}

func TestResultsProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ results, server, want string }{
		{`{"max": "4095B"}`, `{}`, `x.json:1:75: "max" leaves no room for text beside the note that the result was cut (write at least "4KiB")`},
		{`{}`, `{"max": "1KiB"}`, `x.json:1:58: "max" leaves no room`},
		{`{"clients": {"codex": "1KiB"}}`, `{}`, `"codex" leaves no room`},
		{`{"clients": {"codx": "8KiB"}}`, `{}`, `"codx" is not the id of a client with a known name (did you mean "codex"?)`},
		{`{"clients": {"zed": "8KiB"}}`, `{}`, `"zed" is not the id of a client with a known name (write one of claude-code, codex, cursor, vscode)`},
		{`{"structured": "drop"}`, `{}`, `"structured"`},
	} {
		_, err := Parse("x.json", []byte(`{"mcpServers": {"a": {"command": "x", "results": `+tt.server+`}}, "results": `+tt.results+`}`), nil)
		if err == nil || strings.Count(err.Error(), "x.json") != 1 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.results, err, tt.want)
		}
	}
	if c := parsed(t, `{"mcpServers": {}, "results": {"max": "16MiB"}}`); len(c.Notes) != 1 || !strings.Contains(c.Notes[0].String(), `it has no effect: larger results are errors (write less than "limits.backendMessage")`) {
		t.Errorf("%v", c.Notes)
	}
	if c := parsed(t, `{"mcpServers": {}, "results": {"structured": "error"}}`); len(c.Notes) != 1 || !strings.Contains(c.Notes[0].String(), "no result is cut") {
		t.Errorf("%v", c.Notes)
	}
}

// A setting that has no effect together with others is noted.
func TestResultsNotes(t *testing.T) {
	t.Parallel()
	const auth = `, "publicURL": "https://x", "auth": {"proxy": {"from": ["127.0.0.1/32"], "user": "X-User"}}`
	for _, tt := range []struct{ results, server, more, path, want string }{
		{`{"max": "1MiB", "keep": "1ns"}`, `{}`, ``, "results.keep", `a result is dropped before the rest of it can be read (write at least "1s")`},
		{`{"max": "1MiB", "keep": "1s"}`, `{}`, ``, "", ""},
		{`{"max": "1MiB", "keep": "none"}`, `{}`, ``, "", ""},
		{`{"max": "1MiB", "total": "512KiB"}`, `{}`, ``, "results.total", `a result of more than 1MiB is kept only if it can be compressed (write at least "1MiB")`},
		{`{"total": "512KiB"}`, `{"max": "1MiB"}`, ``, "results.total", "more than 1MiB"},
		{`{"total": "512KiB", "clients": {"codex": "1MiB"}}`, `{}`, ``, "results.total", "more than 1MiB"},
		{`{"max": "1MiB", "total": "1MiB"}`, `{}`, ``, "", ""},
		{`{"max": "1MiB", "total": "3MiB"}`, `{}`, auth, "results.total", `(write at least "4MiB", since one principal may have a quarter)`},
		{`{"max": "1MiB", "total": "4MiB"}`, `{}`, auth, "", ""},
		{`{"max": "1MiB", "total": "none"}`, `{}`, auth, "", ""},
		{`{"keep": "1h"}`, `{}`, ``, "results.keep", "it has no effect: no result is cut"},
		{`{"total": "1MiB"}`, `{}`, ``, "results.total", "it has no effect: no result is cut"},
		{`{"structured": "cut"}`, `{}`, ``, "results.structured", "it has no effect: no result is cut"},
		{`{"structured": "cut"}`, `{"max": "8KiB"}`, ``, "", ""},
		{`{"max": "8KiB"}`, `{"max": "16MiB"}`, ``, "mcpServers.a.results.max", "it has no effect: larger results are errors"},
	} {
		c := parsed(t, `{"mcpServers": {"a": {"command": "x", "results": `+tt.server+`}}, "results": `+tt.results+tt.more+`}`)
		var got []string
		for i := range c.Notes {
			if strings.Contains(c.Notes[i].Path, "results") {
				got = append(got, c.Notes[i].Path+" "+c.Notes[i].String())
			}
		}
		if text := strings.Join(got, "\n"); len(got) > 1 || (len(got) == 1) != (tt.path != "") || !strings.HasPrefix(text, tt.path) || !strings.Contains(text, tt.want) {
			t.Errorf("%s, %s: %q", tt.results, tt.server, got)
		}
	}
}

// Which tools are listed without an output schema follows from the limits that may apply to their results.
func TestListsUntyped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		results, server string
		want            bool
	}{
		{`{"structured": "cut", "max": "8KiB"}`, `{}`, true},
		{`{"structured": "error", "max": "8KiB"}`, `{}`, false},
		{`{"max": "8KiB"}`, `{}`, false},
		{`{"structured": "cut"}`, `{}`, false},
		{`{"structured": "cut"}`, `{"max": "8KiB"}`, true},
		{`{"structured": "cut", "max": "8KiB"}`, `{"max": "none"}`, false},
		{`{"structured": "cut", "clients": {"codex": "8KiB"}}`, `{}`, true},
		{`{"structured": "cut", "clients": {"codex": "8KiB"}}`, `{"max": "none"}`, false},
		{`{"structured": "cut", "clients": {"codex": "none"}}`, `{}`, false},
	} {
		c := parsed(t, `{"mcpServers": {"a": {"command": "x", "results": `+tt.server+`}}, "results": `+tt.results+`}`)
		if got := c.ListsUntyped("a"); got != tt.want {
			t.Errorf("%s, %s: %t", tt.results, tt.server, got)
		}
	}
}
