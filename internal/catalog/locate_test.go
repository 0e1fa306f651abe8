// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestTemplates(t *testing.T) {
	tests := []struct {
		template string
		yes, no  []string
	}{
		{"a:b", []string{"a:b"}, []string{"a:bc", "xa:b", "a:"}},
		{"a:{x}", []string{"a:1", "a:%2F", "a:ä", "a:1/2", "a:1\n2"}, []string{"a:", "b:1", "a"}},
		{"a:{x}/b/{y}", []string{"a:1/b/2", "a:1/2/b/3"}, []string{"a:/b/2", "a:1/b/", "a:1/c/2"}},
		{"a://{+path}/end", []string{"a://x/y/z/end", "a://x/end"}, []string{"a:///end", "a://x/end/"}},
		{"a://h{/segments*}", []string{"a://h", "a://h/x/y"}, []string{"a://hx"}},
		{"a://h{?q,limit}", []string{"a://h", "a://h?q=1&limit=2", "a://h?q=a/b"}, []string{"a://h/x", "a://h&q=1"}},
		{"a://h?x=1{&y}", []string{"a://h?x=1", "a://h?x=1&y=2"}, []string{"a://h?x=12"}},
		{"a://h{#frag}", []string{"a://h", "a://h#x/y"}, []string{"a://hx"}},
		{"a://f{.ext}", []string{"a://f", "a://f.txt"}, []string{"a://ftxt"}},
		{"a://f{;v}", []string{"a://f", "a://f;v=1"}, []string{"a://f/v"}},
		{"a.b+c:{x}", []string{"a.b+c:1"}, []string{"aXb+c:1", "a.bbc:1"}},
		{"a:" + strings.Repeat("{x}", maxExpressions), []string{"a:" + strings.Repeat("1", maxExpressions)}, []string{"a:1"}},
		{"a:" + strings.Repeat("x", maxTemplate-len("a:{y}")) + "{y}", []string{"a:" + strings.Repeat("x", maxTemplate)}, []string{"a:1"}},
		{"a:{x", nil, []string{"a:1", "a:{x"}},
		{"a:{}", nil, []string{"a:1", "a:{}", "a:"}},
		{"a:" + strings.Repeat("{x}", maxExpressions+1), nil, []string{"a:" + strings.Repeat("1", 100)}},
		{"a:" + strings.Repeat("x", maxTemplate) + "{y}", nil, []string{"a:" + strings.Repeat("x", maxTemplate) + "1"}},
	}
	for _, tt := range tests {
		c := Build([]Backend{backend("other"), backend("t").with(Templates, template(tt.template))}, Options{})
		if c.sections[Templates].len != 1 {
			t.Errorf("%.50s is not offered", tt.template)
		}
		for _, uri := range tt.yes {
			if e, ok := c.Resource(uri); !ok || e.BackendName != "t" || e.Own != uri || e.Name != uri || e.Kind != Resources {
				t.Errorf("%.50s does not take %.50q: %+v", tt.template, uri, e)
			}
		}
		for _, uri := range tt.no {
			if e, ok := c.Resource(uri); ok {
				t.Errorf("%.50s takes %.50q: %+v", tt.template, uri, e)
			}
		}
	}
}

func TestResourceIsFoundInOrder(t *testing.T) {
	a := backend("a").with(Resources, resource("x:listed")).with(Templates, template("x:{a}"), template("y:{a}/{b}"))
	b := backend("b").with(Resources, resource("x:also"), resource("x:listed")).with(Templates, template("{any}:zz"), template("y:{c}"), template("z:{+all}"))
	c := Build([]Backend{a, b}, Options{})
	tests := []struct{ name, uri, backend string }{
		{"listed, by the first", "x:listed", "a"},
		{"listed, though the template of another takes it", "x:also", "b"},
		{"a template", "x:1", "a"},
		{"the first of two templates", "x:zz", "a"},
		{"one segment before many", "y:zz", "b"},
		{"many segments, by the first that takes them", "y:1/2/3", "a"},
		{"anything", "z:1/2", "b"},
		{"in no list and of no template, with two to choose from", "q:1", ""},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		e, ok := c.Resource(tt.uri)
		if ok != (tt.backend != "") || ok && e.BackendName != tt.backend {
			t.Errorf("%s: %q belongs to %+v, want %q", tt.name, tt.uri, e, tt.backend)
		}
	}
}

// Servers return links to resources that they never list.
func TestSoleBackendOwnsUnlistedResources(t *testing.T) {
	none := Backend{Name: "none", State: Live, Capabilities: []byte(`{"tools":{},"resources":null}`)}
	sole := Backend{Name: "sole", State: Live, Capabilities: []byte(`{"resources":{}}`)}
	stale := sole
	stale.Name, stale.State = "stale", Stale
	tests := []struct {
		name string
		in   []Backend
		want string
	}{
		{"nobody", nil, ""},
		{"one", []Backend{sole}, "sole"},
		{"one with resources", []Backend{none, sole}, "sole"},
		{"one beside one that is missing", []Backend{{Name: "missing"}, sole}, "sole"},
		{"one that is stale", []Backend{none, stale}, "stale"},
		{"two", []Backend{sole, stale}, ""},
		{"none with resources", []Backend{none}, ""},
	}
	for _, tt := range tests {
		e, ok := Build(tt.in, Options{}).Resource("x:1")
		if ok != (tt.want != "") || ok && (e.BackendName != tt.want || tt.in[e.Backend].Name != tt.want || e.Own != "x:1") {
			t.Errorf("%s: got %+v, want %q", tt.name, e, tt.want)
		}
	}
}

func TestPatternsAreBounded(t *testing.T) {
	many := backend("many").with(Templates, numbered(3*maxPatterns, func(n string) string { return template("m:" + n + "/{x}") })...)
	c := Build([]Backend{many, backend("few").with(Templates, template("f:{x}"))}, Options{})
	if got, want := len(c.locator.patterns), maxPatterns+1; got != want {
		t.Errorf("%d patterns, want %d", got, want)
	}
	if e, ok := c.Resource("f:1"); !ok || e.BackendName != "few" {
		t.Errorf("the other backend's template is lost: %+v", e)
	}
}

func TestReference(t *testing.T) {
	c := Build([]Backend{backend("a").with(Prompts, prompt("p")).with(Templates, template("x:{y}")).with(Resources, resource("r:1"))}, Options{})
	tests := []struct {
		ref   string
		field mcp.Field
		own   string
	}{
		{`{"type":"ref/prompt","name":"a__p"}`, mcp.FieldRefName, "p"},
		{`{"type":"ref/resource","uri":"x:{y}"}`, mcp.FieldRefURI, "x:{y}"},
		{`{"type":"ref/resource","uri":"r:1"}`, mcp.FieldRefURI, "r:1"},
		{`{"type":"ref/resource","uri":"x:17"}`, mcp.FieldRefURI, "x:17"},
		{`{"type":"ref/prompt","name":"p"}`, 0, ""},
		{`{"type":"ref/prompt","uri":"x:{y}"}`, 0, ""},
		{`{"type":"ref/tool","name":"a__p"}`, 0, ""},
		{`{"name":"a__p"}`, 0, ""},
		{`null`, 0, ""},
		{`"ref/prompt"`, 0, ""},
	}
	for _, tt := range tests {
		params, err := mcp.ParseObject(fmt.Appendf(nil, `{"argument":{"name":"x","value":""},"ref":%s}`, tt.ref))
		if err != nil {
			t.Fatal(err)
		}
		e, field, ok := c.Reference(&params)
		if ok != (tt.own != "") || ok && (e.Own != tt.own || field != tt.field) {
			t.Errorf("%s: got %+v, %q, %v, want %q", tt.ref, e, field.Key(), ok, tt.own)
		}
	}
}

// Where not all may be read, no template leads to a URI that its server may read as one that is out of
// its bounds.
func TestAmbiguousURIsOfViews(t *testing.T) {
	c := Build([]Backend{backend("a").with(Templates, template("file:///pub/{+path}"))}, Options{})
	all := func(*Entry) bool { return true }
	for uri, want := range map[string]bool{"file:///pub/x": true, "file:///pub/x/../y": true, "file:///pub//x": true, "file:///pub//../secret": false} {
		if _, ok := c.View(all).Resource(uri); ok != want {
			t.Errorf("%s is found in a view: %t, want %t", uri, ok, want)
		}
		if _, ok := c.Resource(uri); !ok {
			t.Errorf("%s is not found", uri)
		}
	}
}
