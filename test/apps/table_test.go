// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// way is a way from a host to a server.
type way string

const (
	direct   way = "direct"
	together way = "one endpoint"    // with all servers
	own      way = "profiles of one" // with the names of their server
)

func ways() []way { return []way{direct, together, own} }

// check is what host.mjs does with a server.
type check string

const (
	connecting check = "connect" // fails for all checks of a job

	listed    check = "listed"
	page      check = "page"
	calls     check = "calls"
	read      check = "read"
	hidden    check = "hidden"
	fence     check = "fence"
	ambiguous check = "ambiguous"
)

func checks() []check { return []check{listed, page, calls, read, hidden, fence, ambiguous} }

// checksOf returns what is tried with a server on a way.
func checksOf(server string, w way) []check {
	switch {
	case server == plain:
		return []check{listed, hidden}
	case w == direct:
		return []check{listed, page, calls, read}
	case w == together && sameNamed(server):
		return []check{listed, page, hidden, fence, ambiguous}
	default:
		return []check{listed, page, calls, read, hidden, fence}
	}
}

// result is the outcome of one check.
type result struct {
	host, servers string // eras
	way           way
	server        string
	check         check
	ok            bool
	problem       string // if it is not ok
}

type results []result

// judge returns a line for each check that failed.
func (all results) judge() []string {
	var lines []string
	for _, r := range all {
		if !r.ok {
			lines = append(lines, fmt.Sprintf("a %s host, %s servers, %s: %s of %s: %s", r.host, r.servers, r.way, r.check, r.server, r.problem))
		}
	}
	return lines
}

// table has a line for each pair of eras, and in it a cell for each check: on each way, the
// number of servers with which it was as it should be. The last line has how many there are.
func (all results) table() string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "host\tservers")
	for _, c := range checks() {
		fmt.Fprintf(tw, "\t%s", c)
	}
	fmt.Fprintln(tw)
	for _, host := range eras() {
		for _, servers := range eras() {
			fmt.Fprintf(tw, "%s\t%s", host, servers)
			for _, c := range checks() {
				fmt.Fprintf(tw, "\t%s", all.cell(c, func(r result) bool { return r.host == host && r.servers == servers }, good))
			}
			fmt.Fprintln(tw)
		}
	}
	fmt.Fprint(tw, "all\t")
	for _, c := range checks() {
		fmt.Fprintf(tw, "\t%s", all.cell(c, func(r result) bool { return r.host == eraLegacy && r.servers == eraLegacy }, tried))
	}
	fmt.Fprintln(tw)
	_ = tw.Flush() // to a Builder, which has no errors
	names := make([]string, 0, len(ways()))
	for _, w := range ways() {
		names = append(names, string(w))
	}
	fmt.Fprintf(&b, "Number of servers: %s\n", strings.Join(names, "|"))
	return b.String()
}

func good(r result) bool  { return r.ok }
func tried(r result) bool { return true }

// cell returns the numbers of servers for which count is true, for each way.
func (all results) cell(c check, row, count func(result) bool) string {
	var numbers []string
	for _, w := range ways() {
		of := slices.DeleteFunc(slices.Clone(all), func(r result) bool { return r.check != c || r.way != w || !row(r) })
		number := ""
		if len(of) > 0 {
			number = fmt.Sprint(len(of) - len(slices.DeleteFunc(slices.Clone(of), count)))
		}
		numbers = append(numbers, number)
	}
	return strings.Join(numbers, "|")
}

// The page of the table, which is between two lines.
const (
	docPage   = "../../docs/interop.md"
	pageBegin = "<!-- the table of test/apps -->\n"
	pageEnd   = "<!-- end -->\n"
)

// writePage writes a new table into the page.
func writePage(t *testing.T, table string) {
	t.Helper()
	old, err := os.ReadFile(docPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(old), pageBegin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		t.Fatalf("%s does not have %q and %q behind it", docPage, pageBegin, pageEnd)
	}
	var lines strings.Builder
	for line := range strings.Lines(table) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	text := before + pageBegin + "```\n" + lines.String() + "```\n" + pageEnd + after
	if err := os.WriteFile(docPage, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
