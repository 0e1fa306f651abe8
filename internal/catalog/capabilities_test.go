// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCapabilities(t *testing.T) {
	live := func(capabilities string) Backend {
		return Backend{Name: "x", State: Live, Capabilities: []byte(capabilities)}
	}
	all := `{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`
	const tasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	tests := []struct {
		name string
		in   []Backend
		want string
	}{
		{"nobody", nil, `{}`},
		{"no capabilities", []Backend{live("")}, `{}`},
		{"empty", []Backend{live(`{}`)}, `{}`},
		{"tools, unannounced", []Backend{live(`{"tools":{}}`)}, `{"tools":{"listChanged":true}}`},
		{"of two", []Backend{live(`{"tools":{"listChanged":false}}`), live(`{"prompts":{},"logging":{}}`)}, `{"logging":{},"prompts":{"listChanged":true},"tools":{"listChanged":true}}`},
		{"subscriptions", []Backend{live(`{"resources":{"subscribe":true}}`)}, `{"resources":{"listChanged":true,"subscribe":true}}`},
		{"no subscriptions", []Backend{live(`{"resources":{"subscribe":false}}`)}, `{"resources":{"listChanged":true}}`},
		{"subscriptions that are none", []Backend{live(`{"resources":{"subscribe":"true"},"tools":{"subscribe":true}}`)}, `{"resources":{"listChanged":true},"tools":{"listChanged":true}}`},
		{"subscriptions of one of two", []Backend{live(`{"resources":{}}`), live(`{"resources":{"subscribe":true}}`)}, `{"resources":{"listChanged":true,"subscribe":true}}`},
		{"null is none", []Backend{live(`{"tools":null,"logging":{}}`)}, `{"logging":{}}`},
		{"unknown ones", []Backend{live(`{"experimental":{"x":{}},"extensions":{"tools":{}}}`)}, `{}`},
		{"all", []Backend{live(allCapabilities)}, strings.Replace(all, `,"subscribe":true`, "", 1)},
		{"a stale one counts", []Backend{{Name: "s", State: Stale, Capabilities: []byte(`{"tools":{}}`)}}, `{"tools":{"listChanged":true}}`},
		{"one that was never reached may have all", []Backend{live(`{}`), {Name: "m"}}, all},
		{"one with a part of its lists may have all", []Backend{{Name: "p", State: Stale, IsPartial: true, Capabilities: []byte(`{"tools":{}}`)}}, all},
		{"tasks of 2025-11-25", []Backend{live(`{}`), live(`{"tasks":{"requests":{"tools":{"call":{}}}}}`)}, tasks},
		{"tasks of the extension", []Backend{live(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)}, tasks},
		{"tasks that tools do not have", []Backend{live(`{"tasks":{"list":{}}}`)}, `{}`},
		{"skills", []Backend{live(`{"extensions":{"io.modelcontextprotocol/skills":{}}}`)}, `{"extensions":{"io.modelcontextprotocol/skills":{}}}`},
		{"skills with directories", []Backend{live(`{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true,"x":1}}}`)}, `{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`},
		{"skills of two", []Backend{live(`{"extensions":{"io.modelcontextprotocol/skills":{}}}`), live(`{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`)},
			`{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`},
		{"skills without settings", []Backend{live(`{"extensions":{"io.modelcontextprotocol/skills":true}}`)}, `{}`},
		{"skills and tasks", []Backend{live(`{"extensions":{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/tasks":{}}}`)},
			`{"extensions":{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/tasks":{}},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`},
		{"skills of one that was never reached", []Backend{{Name: "m", Capabilities: []byte(`{"extensions":{"io.modelcontextprotocol/skills":{}}}`)}}, all},
		{"tasks of one that was never reached", []Backend{{Name: "m", Capabilities: []byte(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)}}, all},
	}
	for _, tt := range tests {
		if got := string(Build(tt.in, Options{}).Capabilities()); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestInstructions(t *testing.T) {
	say := func(name, text string) Backend {
		return Backend{Name: name, State: Live, Instructions: text}
	}
	skilled := func(name string, prefix *string) Backend {
		return Backend{Name: name, State: Live, Rules: Rules{Prefix: prefix}, Capabilities: []byte(`{"extensions":{"io.modelcontextprotocol/skills":{}}}`)}
	}
	tests := []struct {
		name string
		in   []Backend
		opt  Options
		want string
	}{
		{"none", []Backend{say("a", ""), say("b", " \n")}, Options{}, ""},
		{"one", []Backend{say("a", ""), say("b", "Be kind.\n")}, Options{}, "# b\n\nBe kind."},
		{"two", []Backend{say("b", "Be kind."), say("a", "Be quick.")}, Options{}, "# b\n\nBe kind.\n\n# a\n\nBe quick."},
		{"with skills", []Backend{say("a", "Be kind."), skilled("b", nil)}, Options{}, "# a\n\nBe kind.\n\n" + skillNames},
		{"with skills alone", []Backend{skilled("b", nil)}, Options{}, skillNames},
		{"with skills and no prefix", []Backend{say("a", "Be kind."), skilled("b", new(""))}, Options{}, "# a\n\nBe kind."},
		{"with skills, configured", []Backend{skilled("b", nil)}, Options{Instructions: "Be brief."}, "Be brief."},
		{"configured", []Backend{say("a", "Be kind.")}, Options{Instructions: "Be brief."}, "Be brief."},
	}
	for _, tt := range tests {
		if got := Build(tt.in, tt.opt).Instructions(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestInstructionsAreBounded(t *testing.T) {
	long := "x" + strings.Repeat("語", maxInstructions)
	got := Build([]Backend{{Name: "a", State: Live, Instructions: long}, {Name: "b", State: Live, Instructions: "Short."}}, Options{}).Instructions()
	if len(got) > maxInstructions+100 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid: %v", len(got), utf8.ValidString(got))
	}
	if !strings.Contains(got, "[...]\n\n# b\n\nShort.") {
		t.Errorf("the end is %q", got[len(got)-60:])
	}
}

func TestKinds(t *testing.T) {
	want := []string{
		"tool tools/list tools",
		"resource resources/list resources",
		"resource template resources/templates/list resourceTemplates",
		"prompt prompts/list prompts",
		"skill skills/list skills",
	}
	for k := range NumKinds {
		if got := k.String() + " " + k.Method() + " " + k.Field().Key(); got != want[k] {
			t.Errorf("kind %d: got %q, want %q", k, got, want[k])
		}
		if got, ok := KindOf(k.Method()); !ok || got != k {
			t.Errorf("%s lists kind %d, %v; want %d", k.Method(), got, ok, k)
		}
	}
	if got, ok := KindOf("tools/call"); ok {
		t.Errorf("tools/call lists %s", got)
	}
}

func TestShorten(t *testing.T) {
	tests := []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc [...]"},
		{"aéé", 3, "aé [...]"},
		{"aéé", 4, "aé [...]"},
		{"aéé", 5, "aéé"},
		{"語語", 2, " [...]"},
		{"\x80\x80", 1, " [...]"},
	}
	for _, tt := range tests {
		if got := shorten(tt.text, tt.most); got != tt.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}
