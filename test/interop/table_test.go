// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// cell is one test: a feature, by a row, with a server.
type cell struct {
	row     row
	server  string
	feature feature
}

func (c cell) String() string {
	return fmt.Sprintf("%s %s, %s of %s", c.row.client, c.row.version, c.feature, c.server)
}

// results are the outcomes of the tested cells. A missing cell was not reached: the client
// could not connect.
type results map[cell]outcome

func (r results) works(c cell) bool { return r[c].OK }

// route is a way from the clients to the servers, and the results on it.
type route struct {
	name    string
	rows    []row // that use this route
	gaps    []gap // what cannot work on it
	direct  bool  // no gateway in between
	piped   bool  // the client starts a gateway itself
	results results
}

// table has the results: first direct, then through the gateway.
type table struct {
	rows    []row
	servers []server
	routes  []route
}

// cells returns all cells of a row and a feature on a route, one per server that offers it.
func (t table) cells(r row, f feature, way route) []cell {
	if !profileOf(r.client).tries(f) {
		return nil
	}
	var all []cell
	for _, s := range t.servers {
		if s.probes("").offers(f) && s.tried(r, way) {
			all = append(all, cell{r, s.name, f})
		}
	}
	return all
}

// each returns all cells of a route, row by row.
func (t table) each(way route) iter.Seq[cell] {
	return func(yield func(cell) bool) {
		for _, r := range way.rows {
			for _, f := range features() {
				for _, c := range t.cells(r, f, way) {
					if !yield(c) {
						return
					}
				}
			}
		}
	}
}

// print writes a line per row, and in it a cell per feature: for each route, the number of
// servers with which the feature worked. For the others it has the mark of the reason,
// which the legend explains.
func (t table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "client\tversion")
	for _, f := range features() {
		fmt.Fprintf(tw, "\t%s", f)
	}
	fmt.Fprintln(tw)
	for _, r := range t.rows {
		fmt.Fprintf(tw, "%s\t%s", r.client, r.version)
		for _, f := range features() {
			fmt.Fprintf(tw, "\t%s", t.counts(r, f))
		}
		fmt.Fprintln(tw)
	}
	fmt.Fprint(tw, "servers that offer it\t")
	for _, f := range features() {
		var offers []string
		for _, way := range t.routes {
			offers = append(offers, fmt.Sprint(len(t.cells(row{version: modernVersion}, f, way))))
		}
		fmt.Fprintf(tw, "\t%s", strings.Join(offers, "|"))
	}
	fmt.Fprintln(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, t.legend())
	return err
}

func (t table) counts(r row, f feature) string {
	if !profileOf(r.client).tries(f) {
		return ""
	}
	var all []string
	for _, way := range t.routes {
		all = append(all, t.count(r, f, way))
	}
	return strings.Join(all, "|")
}

// count returns how often a feature worked and the marks of why it could not with the
// others.
func (t table) count(r row, f feature, way route) string {
	if !slices.Contains(way.rows, r) {
		return ""
	}
	n, marks := 0, ""
	for _, c := range t.cells(r, f, way) {
		if way.results.works(c) {
			n++
		} else if g, ok := t.gapOf(c, way); ok && !strings.Contains(marks, g.mark) {
			marks += g.mark
		}
	}
	if n == 0 && marks != "" {
		return "-" + marks
	}
	return fmt.Sprint(n) + marks
}

// gapOf returns why a cell cannot work on a route, if there is a reason.
func (t table) gapOf(c cell, way route) (gap, bool) {
	for _, s := range t.servers {
		if s.name != c.server {
			continue
		}
		for _, g := range way.gaps {
			if g.applies(c, s) {
				return g, true
			}
		}
	}
	return gap{}, false
}

// legend explains the numbers and marks.
func (t table) legend() string {
	var b strings.Builder
	b.WriteString("Number of servers with which it worked: ")
	reasons := make(map[string]string)
	for i, way := range t.routes {
		if i > 0 {
			b.WriteString("|")
		}
		b.WriteString(way.name)
		for _, g := range way.gaps {
			reasons[g.mark] = g.reason
		}
	}
	b.WriteString(". A letter: not with the others, because\n")
	for _, mark := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&b, "  %s  %s\n", mark, reasons[mark])
	}
	return b.String()
}
