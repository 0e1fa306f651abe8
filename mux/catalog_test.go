// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"strings"
	"sync"
	"testing"
)

func TestAddRejectsInvalidItems(t *testing.T) {
	twice := hello("a")
	twice.InputSchema = `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"X"},"b":{"type":"string","x-mcp-header":"x"}}}`
	broken := hello("a")
	broken.InputSchema = `{`
	badTemplate := func(uri string) Template { return Template{URI: uri, Name: "t", Read: note("x:y").Read} }
	for name, item := range map[string]Item{
		"a tool without a name":          hello(""),
		"a tool that does nothing":       Tool{Name: "a"},
		"a tool of one header twice":     twice,
		"a tool whose schema is none":    broken,
		"a resource without a URI":       note(""),
		"a resource that holds nothing":  Resource{URI: "x:y", Name: "n"},
		"a template that holds nothing":  Template{URI: "x:{a}", Name: "n"},
		"a template that has no end":     badTemplate("x:{a"),
		"a template that has no begin":   badTemplate("x:a}"),
		"a template without a variable":  badTemplate("x:{}"),
		"a template of a query":          badTemplate("x:y{?q}"),
		"a template that cannot be read": badTemplate("x:{a}{b}"),
		"a prompt without a name":        verse(""),
		"a prompt that says nothing":     Prompt{Name: "v"},
	} {
		m := new(Mux)
		if err := m.Add(hello("right"), item); err == nil || !strings.HasPrefix(err.Error(), "mux: ") {
			t.Errorf("%s: %v, want an error of ours", name, err)
		}
		if m.current().tools.everUsed {
			t.Errorf("%s: another was added all the same", name)
		}
	}
}

func TestMustAddPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an item that is not right was added")
		}
	}()
	New(hello(""))
}

// A replaced item keeps its place; one that is removed and added again gets a new one.
func TestReplace(t *testing.T) {
	m := New(hello("a"), hello("b"), hello("c"))
	again := hello("a")
	again.Title = "A"
	m.MustAdd(again)
	const b, c = `{"name":"b","inputSchema":{"type":"object"}}`, `{"name":"c","inputSchema":{"type":"object"}}`
	equal(t, "replaced", answer(t, m, "tools/list", ``), `{"tools":[{"name":"a","title":"A","inputSchema":{"type":"object"}},`+b+`,`+c+`]}`)
	if err := m.Remove(hello("a"), hello("nothing")); err != nil {
		t.Fatal(err)
	}
	m.MustAdd(hello("a"))
	equal(t, "added again", answer(t, m, "tools/list", ``), `{"tools":[`+b+`,`+c+`,{"name":"a","inputSchema":{"type":"object"}}]}`)
	equal(t, "called", answer(t, m, "tools/call", `{"name":"c"}`), `{"content":[{"type":"text","text":"Hello from c."}]}`)
}

// Items of all kinds are listed with their fields, and removed by their kind.
func TestKinds(t *testing.T) {
	tool := hello("same")
	tool.Title, tool.Description, tool.Task = "T", "D.", TaskRequired
	tool.OutputSchema, tool.Annotations, tool.Icons, tool.Meta = `{"type":"array"}`, `{"readOnlyHint":true}`, `[]`, `{"a/b":1.0}`
	resource := note("same")
	resource.MIMEType, resource.Size = "text/plain", 5
	m := New(tool, resource, Template{URI: "same:{x}", Name: "same", Read: resource.Read}, verse("same", Argument{Name: "a", Required: true}))
	lists := map[string]string{
		"tools/list": `{"tools":[{"name":"same","title":"T","description":"D.","inputSchema":{"type":"object"},"outputSchema":{"type":"array"},` +
			`"annotations":{"readOnlyHint":true},"icons":[],"_meta":{"a/b":1.0},"execution":{"taskSupport":"required"}}]}`,
		"resources/list":           `{"resources":[{"uri":"same","name":"note","mimeType":"text/plain","size":5}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"same:{x}","name":"same"}]}`,
		"prompts/list":             `{"prompts":[{"name":"same","arguments":[{"name":"a","required":true}]}]}`,
	}
	for method, want := range lists {
		equal(t, method, answer(t, m, method, ``), want)
	}
	if err := m.Remove(Resource{URI: "same"}, Prompt{Name: "same"}, Template{URI: "same:{x}"}); err != nil {
		t.Fatal(err)
	}
	equal(t, "the tool", answer(t, m, "tools/list", ``), lists["tools/list"])
	for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list"} {
		if got := answer(t, m, method, ``); !strings.HasSuffix(got, `":[]}`) {
			t.Errorf("%s: %s, want nothing", method, got)
		}
	}
}

// A concurrent list shows the items before a change or after it, never in between.
func TestChangesAreAtomic(t *testing.T) {
	m := New(hello("a0"), hello("b0"))
	var all sync.WaitGroup
	all.Go(func() { // ends by itself
		for range 200 {
			m.MustAdd(hello("a1"), hello("b1"))
			if err := m.Remove(hello("a1"), hello("b1")); err != nil {
				t.Error(err)
			}
		}
	})
	for range 200 {
		if got := answer(t, m, "tools/list", ``); strings.Contains(got, `"a1"`) != strings.Contains(got, `"b1"`) {
			t.Fatalf("half a change: %s", got)
		}
	}
	all.Wait()
}
