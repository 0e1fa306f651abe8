// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The mark is the only member of its name, whatever the tool has there.
func TestListWholeMarks(t *testing.T) {
	const rest = `"inputSchema":{"type":"object"}`
	for meta, want := range map[string]string{
		``:                                    `{"name":"a__x",` + rest + `,"_meta":{"m":true}}`,
		`,"_meta":{}`:                         `{"name":"a__x",` + rest + `,"_meta":{"m":true}}`,
		`,"_meta":{"m":1, "n":2},"title":"T"`: `{"name":"a__x",` + rest + `,"title":"T","_meta":{"n":2,"m":true}}`,
		`,"_meta":5`:                          `{"name":"a__x",` + rest + `,"_meta":{"m":true}}`,
	} {
		b := backend("a").with(Tools, `{"name":"x",`+rest+meta+`}`, tool("y"))
		v := Build([]Backend{b}, Options{}).Profile(&Profile{Finder: &Finder{Always: []string{"a__x"}, Auto: true}})
		res, err := v.ListWhole("m", "")
		if err != nil {
			t.Fatal(err)
		}
		if want := `"tools":[` + want + `,` + tool("a__y") + `]}`; !strings.HasSuffix(string(res.Bytes()), want) {
			t.Errorf("%s: %s, want %s", meta, res.Bytes(), want)
		}
	}
}

// ToolBytesOf counts what the profile lists.
func TestToolBytesOf(t *testing.T) {
	in := []Backend{
		backend("a").with(Tools, tools("read", "write", FindTool)...),
		backend("b").with(Tools, tools("read")...),
	}
	for _, p := range []Profile{
		{},
		{Backends: []string{"a"}, Include: []string{"*read"}},
		{Backends: []string{"a"}, Finder: &Finder{Always: []string{"a__write"}, Split: true}},
		{Backends: []string{"a"}, OwnNames: true},
		{Backends: []string{"a"}, OwnNames: true, Finder: &Finder{Always: []string{"write", FindTool}}},
	} {
		for _, reads := range []bool{false, true} {
			c := Build(in, Options{ReadsResults: reads})
			v := c.Profile(&p)
			tools, bytes := c.ToolBytesOf(&p)
			if p.OwnNames {
				tools, bytes = v.ToolBytesOf(&Profile{Finder: p.Finder})
			}
			list := func() (*mcp.Result, error) { return v.List(Tools, "") }
			if p.Finder != nil {
				list = func() (*mcp.Result, error) { return v.ListFound("") }
			}
			res, err := list()
			if err != nil {
				t.Fatal(err)
			}
			var listed []json.RawMessage
			if err := json.Unmarshal(res.Raw(mcp.FieldTools), &listed); err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, item := range listed {
				size += len(item)
			}
			if tools != len(listed) || bytes != size {
				t.Errorf("%+v, reads %t: %d tools of %d bytes, but %d of %d are listed", p, reads, tools, bytes, len(listed), size)
			}
		}
	}
}

// The tools of the gateway are for the model alone where those of servers without an app are.
func TestOwnToolsAreFenced(t *testing.T) {
	opt := Options{ReadsResults: true, Apps: Apps{Render: true, Fence: true}}
	c := Build([]Backend{backend("a").with(Tools, tools("x")...)}, opt)
	p := c.Profile(&Profile{Finder: &Finder{Split: true}})
	for _, of := range []*Catalog{c, p} {
		for e := range of.Entries(Tools) {
			if !strings.Contains(string(e.JSON()), `"visibility":["model"]`) {
				t.Errorf("%s is listed as %s", e.Name, e.JSON())
			}
		}
	}
}
