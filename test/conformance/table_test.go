// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// cell is a place in the table.
type cell struct{ set, scenario, way string }

// table has the outcomes of every scenario of every set in every way.
type table struct {
	title string // server or client
	sets  []set
	ways  []way
	// rows are the scenarios of each set, by its name and in the suite's order.
	rows    map[string][]string
	results map[cell]outcome
	found   [][][]scenario // by way and set, before collect
}

func newTable(title string, sets []set, ways []way) *table {
	return &table{title: title, sets: sets, ways: ways, rows: make(map[string][]string), results: make(map[cell]outcome)}
}

// add adds the results of a set in a way.
func (tab *table) add(what set, by way, found []scenario) {
	for _, s := range found {
		tab.results[cell{what.name, s.name, by.name}] = s.outcome
		if !slices.Contains(tab.rows[what.name], s.name) {
			tab.rows[what.name] = append(tab.rows[what.name], s.name)
		}
	}
}

// breaches returns the cells with a wrong result, in the order of the table.
func (tab *table) breaches(known exceptions) []string {
	var found []string
	for _, s := range tab.sets {
		for _, row := range tab.rows[s.name] {
			for _, w := range tab.ways {
				at := cell{s.name, row, w.name}
				if why := tab.breach(w, at, known); why != "" {
					found = append(found, fmt.Sprintf("%s | %s | %s: %s", at.way, at.set, at.scenario, why))
				}
			}
		}
	}
	return found
}

// breach returns why the result of a cell is wrong, or "".
func (tab *table) breach(w way, at cell, known exceptions) string {
	got := tab.results[at]
	_, unsupported := known.unsupported[at.scenario]
	switch _, gap := known.gap(w, at.scenario); {
	case !tab.played(w), w.foreign, w.like != "" && !tab.passes(at.scenario, w.like):
		return ""
	case unsupported && got.verdict == passed:
		return "it passes, but is listed as not supported"
	case unsupported && got.verdict == failed:
		return ""
	case gap && got.verdict == passed:
		return "it passes, but is listed as impossible"
	case gap:
		return ""
	case got.verdict == failed:
		return strings.Join(got.messages, "; ")
	case got.verdict == absent:
		return "it was not run"
	case got.verdict == skipped && !known.mayBeEmpty(w, at.scenario):
		return "the suite checked nothing"
	}
	return ""
}

// played reports whether a way was run at all.
func (tab *table) played(w way) bool {
	for at := range tab.results {
		if at.way == w.name {
			return true
		}
	}
	return false
}

// passes reports whether a scenario passes in a way, in any set.
func (tab *table) passes(name, way string) bool {
	return slices.ContainsFunc(tab.sets, func(s set) bool {
		return tab.results[cell{s.name, name, way}].verdict == passed
	})
}

// print writes the table as Markdown: the ways, and a table for each set.
func (tab *table) print(w io.Writer, known exceptions) {
	fmt.Fprintf(w, "## As a %s\n\n", tab.title)
	for i, way := range tab.ways {
		fmt.Fprintf(w, "%d. **%s**: %s\n", i+1, way.name, way.note)
	}
	for _, s := range tab.sets {
		fmt.Fprintf(w, "\n### %s, %s\n\n| scenario |", strings.ToUpper(tab.title[:1])+tab.title[1:], s.name)
		for i := range tab.ways {
			fmt.Fprintf(w, " %d |", i+1)
		}
		fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(tab.ways)))
		for _, row := range tab.rows[s.name] {
			fmt.Fprintf(w, "| %s |", row)
			for _, by := range tab.ways {
				fmt.Fprintf(w, " %s |", tab.mark(by, cell{s.name, row, by.name}, known))
			}
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, "| **passed** |")
		for _, by := range tab.ways {
			fmt.Fprintf(w, " %s |", tab.total(s, by, known))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// mark returns the content of a cell.
func (tab *table) mark(w way, at cell, known exceptions) string {
	got := tab.results[at]
	if letter, ok := known.gap(w, at.scenario); ok && got.verdict != passed {
		return letter
	}
	switch got.verdict {
	case passed:
		return "✓"
	case failed:
		return "✗"
	default:
		return "–"
	}
}

// total returns how many scenarios passed, of those that were checked and can pass.
func (tab *table) total(s set, w way, known exceptions) string {
	var good, all int
	for _, row := range tab.rows[s.name] {
		at := cell{s.name, row, w.name}
		_, gap := known.gap(w, row)
		switch got := tab.results[at].verdict; {
		case got == passed:
			good++
			all++
		case got == failed && !gap:
			all++
		}
	}
	return fmt.Sprintf("%d/%d", good, all)
}

// writePage writes docs/conformance.md.
func writePage(w io.Writer, known exceptions, tables ...*table) {
	fmt.Fprint(w, preface)
	for _, tab := range tables {
		tab.print(w, known)
	}
	fmt.Fprint(w, "## Scenarios that are not supported\n\n")
	for _, name := range slices.Sorted(maps.Keys(known.unsupported)) {
		fmt.Fprintf(w, "- `%s`: %s\n", name, known.unsupported[name])
	}
	fmt.Fprint(w, "\n## Scenarios without checks\n\n")
	for _, name := range slices.Sorted(maps.Keys(known.unchecked)) {
		fmt.Fprintf(w, "- `%s`: %s\n", name, known.unchecked[name])
	}
	for _, name := range slices.Sorted(maps.Keys(known.hops)) {
		fmt.Fprintf(w, "- `%s`, through the gateway: %s\n", name, known.hops[name])
	}
}

const preface = `# Results of the official conformance suite

The [conformance suite](https://github.com/modelcontextprotocol/conformance) of MCP tests servers and clients. ` + "`make conformance`" + `
runs it in the version that [package.json](../test/conformance/package.json) pins: against a server and a client built
with this library ([server](../test/conformance/server), [client](../test/conformance/client)), and through the gateway. This
page has the results. A warning counts as a failure here; no failure is expected, except of what is not supported.

| mark | meaning |
|---|---|
| ✓ | passed, without a warning |
| ✗ | failed: only in columns of other projects, which show what can be expected of the gateway in front of them, and what is not supported |
| – | nothing was checked |
| a letter | a revision cannot express this, for the reason with that letter in [bridge.md](bridge.md) |

`
