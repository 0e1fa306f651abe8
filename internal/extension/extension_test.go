// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import "testing"

func TestCut(t *testing.T) {
	for in, want := range map[string]string{
		`{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]},"a/b":{}}`: `{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`,
		`{"io.modelcontextprotocol/skills":{"x":1.0}}`:                                        `{"io.modelcontextprotocol/skills":{"x":1.0}}`,
		`{"io.modelcontextprotocol/tasks":{},"a/b":{}}`:                                       ``,
		`{}`: ``, `[]`: ``, `null`: ``, ``: ``,
	} {
		if got := string(Cut([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

func TestDeclares(t *testing.T) {
	for in, want := range map[string]bool{
		`{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`:  true,
		`{"extensions":{"io.modelcontextprotocol\/u\u0069":{"x":[]}}}`: true,
		`{"extensions":{"io.modelcontextprotocol/ui":null}}`:           false,
		`{"extensions":{"io.modelcontextprotocol/ui":true}}`:           false,
		`{"extensions":{"io.modelcontextprotocol/uis":{}}}`:            false,
		`{"experimental":{"io.modelcontextprotocol/ui":{}}}`:           false,
		`{"extensions":[]}`: false, `null`: false, ``: false,
	} {
		if got := Declares([]byte(in), UI); got != want {
			t.Errorf("%s: %t", in, got)
		}
	}
}

// What hosts read: ext-apps, McpUiToolMeta, where the visibility of a tool is that of the model
// and of apps unless it is given.
func TestReadTool(t *testing.T) {
	for _, tt := range []struct {
		meta             string
		model, app, ofUI bool
	}{
		{``, true, true, false},
		{`null`, true, true, false},
		{`{"x":{"visibility":["app"]}}`, true, true, false},
		{`{"ui":{}}`, true, true, false},
		{`{"ui":{"resourceUri":"ui://x"}}`, true, true, true},
		{`{"ui":{"resourceUri":7}}`, true, true, false},
		{`{"ui/resourceUri":"ui://x"}`, true, true, true},
		{`{"openai/outputTemplate":"ui://x"}`, true, true, true},
		{`{"ui":{"visibility":["app"]}}`, false, true, true},
		{`{"ui":{"visibility":["model"]}}`, true, false, false},
		{`{"ui":{"visibility":["model"],"resourceUri":"ui://x"}}`, true, false, true},
		{`{"ui":{"visibility":["model","app"]}}`, true, true, true},
		{`{"ui":{"visibility":["\u0061pp"]}}`, false, true, true},
		{`{"ui":{"visibility":[]}}`, false, false, false},
		{`{"ui":{"visibility":["other",1,null]}}`, false, false, false},
		{`{"ui":{"visibility":"app"}}`, true, true, false},
		{`{"\u0075i":{"visibilit\u0079":["app"]}}`, false, true, true},
		{`{"ui":{"visibility":["app"]},"ui":{"visibility":["model"]}}`, true, false, false}, // the last one counts, as in JavaScript
	} {
		got := ReadTool([]byte(tt.meta))
		if got.ForModel() != tt.model || got.ForApp() != tt.app || got.IsOfApp() != tt.ofUI {
			t.Errorf("%s: for the model %t, for apps %t, of an app %t", tt.meta, got.ForModel(), got.ForApp(), got.IsOfApp())
		}
	}
}

func TestFenceAndStrip(t *testing.T) {
	for _, tt := range []struct{ tool, fenced, stripped string }{
		{`{}`, `{"_meta":{"ui":{"visibility":["model"]}}}`, `{}`},
		{`{"name":"x"}`, `{"name":"x","_meta":{"ui":{"visibility":["model"]}}}`, `{"name":"x"}`},
		{`{"_meta":{"a":1.0},"x":2}`, `{"_meta":{"a":1.0,"ui":{"visibility":["model"]}},"x":2}`, `{"_meta":{"a":1.0},"x":2}`},
		{`{"_meta":null}`, `{"_meta":{"ui":{"visibility":["model"]}}}`, `{"_meta":null}`},
		{`{"_meta":{"ui":7}}`, `{"_meta":{"ui":{"visibility":["model"]}}}`, `{"_meta":{}}`},
		{`{"_meta":{"ui":{"visibility":7,"x":1}}}`, `{"_meta":{"ui":{"x":1,"visibility":["model"]}}}`, `{"_meta":{}}`},
		{`{"_meta":{"ui":{"visibility":["app"]}}}`, `{"_meta":{"ui":{"visibility":["app"]}}}`, `{"_meta":{}}`},
		{`{"_meta":{"ui/resourceUri":"ui://x","openai/outputTemplate":"ui://x","k":1}}`, `{"_meta":{"ui/resourceUri":"ui://x","openai/outputTemplate":"ui://x","k":1,"ui":{"visibility":["model"]}}}`, `{"_meta":{"k":1}}`},
	} {
		if got := string(Fence([]byte(tt.tool))); got != tt.fenced {
			t.Errorf("%s is fenced as %s, want %s", tt.tool, got, tt.fenced)
		}
		if got := string(Fence([]byte(tt.fenced))); got != tt.fenced {
			t.Errorf("%s is fenced again as %s", tt.fenced, got)
		}
		if got := string(Strip([]byte(tt.tool))); got != tt.stripped {
			t.Errorf("%s is stripped to %s, want %s", tt.tool, got, tt.stripped)
		}
	}
}

func TestIsPage(t *testing.T) {
	for uri, want := range map[string]bool{"ui://x": true, "UI://x": true, "ui://": true, "ui:/x": true, "file:///ui://x": false, "": false, "uis://x": false} {
		if got := IsPage(uri); got != want {
			t.Errorf("%q: %t", uri, got)
		}
	}
}
