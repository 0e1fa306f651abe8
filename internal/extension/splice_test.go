// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplice(t *testing.T) {
	link := func(uri string) string { return `{"type":"resource_link","uri":"` + uri + `","name":"n"}` }
	embedded := func(uri string) string {
		return `{"type":"resource","resource":{"uri":"` + uri + `","text":"ui://page"}}`
	}
	meta := func(b string) string {
		return `{"ui":{"resourceUri":"ui://` + b + `page","csp":{"x":["ui://page"]}},"ui/resourceUri":"UI://` + b + `page","openai/outputTemplate":"ui://` + b + `t","other":"ui://page"}`
	}
	for _, tt := range []struct {
		name string
		f    func(label string, raw []byte) []byte
		text func(b string) string
	}{
		{"tool", OuterItem, func(b string) string {
			return `{"name":"ui://page","_meta":` + meta(b) + `,"inputSchema":{"_meta":{"ui/resourceUri":"ui://page"}}}`
		}},
		{"call", OuterCall, func(b string) string {
			return `{"content":[` + link("ui://"+b+"page") + `,` + embedded("skill://"+b+"s/SKILL.md") + `,{"type":"text","text":"ui://page","uri":"ui://page"},` +
				link("file:///ui://page") + `,1,null],"structuredContent":{"uri":"ui://page","content":[` + link("ui://page") + `]},"_meta":` + meta(b) + `}`
		}},
		{"prompt", OuterPrompt, func(b string) string {
			return `{"messages":[{"role":"user","content":` + link("ui://"+b+"page") + `},{"role":"user","content":[` + embedded("ui://"+b+"page") + `]},7],"_meta":` + meta(b) + `}`
		}},
		{"read", OuterRead, func(b string) string {
			return `{"contents":[{"uri":"ui://` + b + `page","text":"ui://page","_meta":{"ui":{"resourceUri":"ui://page"}}},{"uri":"file:///a"},{"text":"t"}]}`
		}},
		{"task", OuterTask, func(b string) string {
			return `{"taskId":"ui://page","status":"completed","result":{"content":[` + link("ui://"+b+"page") + `],"_meta":` + meta(b) + `},"_meta":{"ui/resourceUri":"ui://page"}}`
		}},
	} {
		own := tt.text("")
		if got := string(tt.f("b", []byte(own))); got != tt.text("b/") {
			t.Errorf("%s (-got +want):\n%s", tt.name, cmp.Diff(got, tt.text("b/")))
		}
		raw := []byte(own)
		if got := tt.f("", raw); &got[0] != &raw[0] || string(got) != own {
			t.Errorf("%s without a label: %s", tt.name, got)
		}
	}
}

// The text of a URI may have escapes, which are not kept.
func TestSpliceOfEscapes(t *testing.T) {
	if got := string(OuterRead("b", []byte(`{"contents":[{"uri":"u\u0069:\/\/a\"b"}]}`))); got != `{"contents":[{"uri":"ui://b/a\"b"}]}` {
		t.Error(got)
	}
	// An unpaired surrogate is no text.
	const odd = `{"contents":[{"uri":"ui://\ud800"}]}`
	if got := string(OuterRead("b", []byte(odd))); got != odd {
		t.Error(got)
	}
}

func TestMetaURIs(t *testing.T) {
	for meta, want := range map[string][]string{
		`{}`:                                 nil,
		`1`:                                  nil,
		`{"ui":1,"ui/resourceUri":2}`:        nil,
		`{"ui":{"resourceUri":"https://x"}}`: nil,
		`{"ui":{"resourceUri":"ui://a"}}`:    {"ui://a"},
		`{"ui/resourceUri":"ui://b"}`:        {"ui://b"},
		`{"openai/outputTemplate":"ui://c"}`: {"ui://c"},
		`{"x":{"resourceUri":"ui://a"}}`:     nil,
		`{"ui":{"other":{"uri":"ui://a"}}}`:  nil,
		`{"ui":{"resourceUri":"skill://a/b"},"openai/outputTemplate":"ui://c"}`: {"skill://a/b", "ui://c"},
	} {
		if got := MetaURIs([]byte(meta)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", meta, got, want)
		}
	}
}

// Splicing keeps JSON valid, changes nothing but URIs, and returns the text itself without any.
func FuzzSplice(f *testing.F) {
	f.Add(`{"content":[{"type":"resource_link","uri":"ui://a"},{"type":"resource","resource":{"uri":"ui://a"}}],"messages":[{"content":[]}],"contents":[{"uri":"ui:"}],"result":{"content":[{"type":"resource_link","uri":"ui://a"}]},"_meta":{"ui":{"resourceUri":"ui://a"}}}`)
	f.Add(`{"contents":[{"uri":"ui:\/\/"}],"content":{"type":"resource_link","uri":"ui://a"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		text = strings.TrimSpace(text)
		for name, splice := range map[string]func(string, []byte) []byte{"item": OuterItem, "call": OuterCall, "prompt": OuterPrompt, "read": OuterRead, "task": OuterTask} {
			got := splice("L", []byte(text))
			if !json.Valid(got) {
				t.Fatalf("%s: %s became %s", name, text, got)
			}
			// Without the label it is the same value again.
			if a, b := withoutLabel(t, got, "L"), withoutLabel(t, []byte(text), "L"); a != b {
				t.Errorf("%s: %s became %s", name, text, got)
			}
		}
	})
}

// withoutLabel returns a JSON text with the inner form of each URI that has the label.
func withoutLabel(t *testing.T, text []byte, label string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err.Error()
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name := range v {
				v[name] = walk(v[name])
			}
			return v
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
			return v
		case string:
			for l, inner, ok := InnerURI(v); ok && l == label; l, inner, ok = InnerURI(v) {
				v = inner
			}
			return v
		default:
			return v
		}
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
