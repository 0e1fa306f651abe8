// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// benchBackends returns n tools of about a KiB each, distributed over the backends.
func benchBackends(n, over int) []Backend {
	schema := `{"type":"object","properties":{` + strings.Repeat(`"path":{"type":"string","description":"Where the file stands."},`, 10) + `"x":{"type":"integer"}},"required":["x"]}`
	var in []Backend
	for b := range over {
		in = append(in, backend(fmt.Sprint("backend", b)).with(Tools, numbered(n/over, func(name string) string {
			return fmt.Sprintf(`{"name":%q,"description":"Reads the whole of a file.","inputSchema":%s}`, name, schema)
		})...))
	}
	return in
}

func BenchmarkBuild(b *testing.B) {
	for _, size := range [][2]int{{10, 1}, {100, 5}, {1000, 20}} {
		b.Run(fmt.Sprintf("%d_over_%d", size[0], size[1]), func(b *testing.B) {
			in := benchBackends(size[0], size[1])
			b.ReportAllocs()
			for b.Loop() {
				Build(in, Options{})
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	c := Build(benchBackends(1000, 20), Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.List(Tools, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTool(b *testing.B) {
	c := Build(benchBackends(1000, 20), Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Tool("backend7__n0031"); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkView(b *testing.B) {
	c := Build(benchBackends(1000, 20), Options{})
	b.ReportAllocs()
	for b.Loop() {
		c.View(func(e *Entry) bool { return e.Backend%2 == 0 })
	}
}

// The allocations of Build are proportional to the number of items.
func TestBuildAllocations(t *testing.T) {
	const most = 50
	for _, size := range [][2]int{{10, 1}, {1000, 20}} {
		in := benchBackends(size[0], size[1])
		got := testing.AllocsPerRun(1, func() { Build(in, Options{}) }) / float64(size[0])
		if got > most {
			t.Errorf("%d tools over %d backends: %v allocations for each, want at most %v", size[0], size[1], got, most)
		}
	}
}

// BenchmarkProfile measures a profile of half the backends, which is made when it is used
// first.
func BenchmarkProfile(b *testing.B) {
	in := benchBackends(1000, 20)
	c := Build(in, Options{})
	p := Profile{Name: "p", Exclude: []string{"*delete*"}}
	for i := range in[:10] {
		p.Backends = append(p.Backends, in[i].Name)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Profile(&p)
	}
}
