// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// testCase is what one caller may do and sees.
type testCase struct {
	name  string
	as    caller
	calls []expectedCall
	sees  []expectedName
	seen  bool // sees is in the file
	at    configfile.Position
}

// expectedCall is a call with the outcome that is expected of it.
type expectedCall struct {
	want string // may, mayNot, needs or confirm
	name string
	args []byte // nil without arguments
	at   configfile.Position
}

type expectedName struct {
	pattern string
	at      configfile.Position
}

// readCases reads a file with cases.
func readCases(file string, text []byte) ([]testCase, error) {
	r := &reader{file: file}
	root := r.parse(text)
	if r.err != nil {
		return nil, r.err
	}
	var cases []testCase
	r.members(root, map[string]func(configfile.Node){
		"cases": r.list(func(n configfile.Node) { cases = append(cases, r.testCase(n)) }),
	})
	if len(cases) == 0 {
		r.fail(root.At, `there are no cases; write them below "cases"`)
	}
	return cases, r.err
}

func (r *reader) testCase(n configfile.Node) testCase {
	c := testCase{at: n.At}
	expect := func(want string) func(configfile.Node) {
		return r.list(func(n configfile.Node) { c.calls = append(c.calls, r.call(n, want)) })
	}
	r.members(n, map[string]func(configfile.Node){
		"name": r.text(&c.name),
		"as":   func(n configfile.Node) { c.as = r.caller(n) },
		"may":  expect("may"), "mayNot": expect("mayNot"), "needs": expect("needs"), "confirm": expect("confirm"),
		"sees": func(n configfile.Node) {
			c.seen = true
			r.list(func(n configfile.Node) {
				one := expectedName{at: n.At}
				r.text(&one.pattern)(n)
				c.sees = append(c.sees, one)
			})(n)
		},
	})
	if len(c.calls) == 0 && !c.seen {
		r.fail(n.At, "a case without expectations; write may, mayNot, needs, confirm or sees")
	}
	return c
}

// call reads a name, or a mapping with a name and arguments.
func (r *reader) call(n configfile.Node, want string) expectedCall {
	c := expectedCall{want: want, at: n.At}
	if n.Kind == configfile.Text {
		c.name = n.Text
		return c
	}
	r.members(n, map[string]func(configfile.Node){
		"call": r.text(&c.name),
		"args": func(n configfile.Node) {
			text, err := json.Marshal(r.value(n))
			if err != nil || n.Kind != configfile.Mapping {
				r.fail(n.At, "arguments are a mapping, not %s", n.Kind)
			}
			c.args = text
		},
	})
	if c.name == "" {
		r.fail(n.At, `"call" is missing: the name of a tool or prompt, or a URI`)
	}
	return c
}

// testRun is one run of the cases.
type testRun struct {
	file           string
	g              *signalbox.Gateway
	profile        string
	out            bytes.Buffer
	checks, failed int
}

func test(ctx context.Context, e *command.Env, f *target.Flags, file string) error {
	text, err := os.ReadFile(e.Path(file))
	if err != nil {
		return fmt.Errorf("read the cases: %w", err)
	}
	cases, err := readCases(file, text)
	if err != nil {
		return err
	}
	return WithLists(ctx, e, f, func(g *signalbox.Gateway) error {
		run := &testRun{file: file, g: g, profile: f.Profile}
		for i := range cases {
			run.run(&cases[i])
		}
		if err := e.PrintText(e.Stdout, run.out.String()); err != nil {
			return err
		}
		if run.failed > 0 {
			return fmt.Errorf("policy test: %d of %s failed", run.failed, output.Plural(run.checks, "expectation"))
		}
		return nil
	})
}

func (run *testRun) report(c *testCase, at configfile.Position, met bool, format string, args ...any) {
	run.checks++
	word := "ok"
	if !met {
		run.failed++
		word = "FAIL"
	}
	text := fmt.Sprintf(format, args...)
	name := cmp.Or(c.name, c.as.String())
	run.out.WriteString(output.VisibleLine(fmt.Sprintf("%s %s:%d: %s: %s", word, run.file, at.Line, name, text)) + "\n")
}

func (run *testRun) run(c *testCase) {
	for i := range c.calls {
		run.runCall(c, &c.calls[i])
	}
	if c.seen {
		run.runSees(c)
	}
}

func (run *testRun) runCall(c *testCase, call *expectedCall) {
	found := run.g.ExplainPolicy(&signalbox.PolicyQuestion{Identity: c.as.identity(), Client: c.as.peer(), Profile: run.profile, Name: call.name, Arguments: call.args})
	what := fmt.Sprintf("%s %s", call.want, call.name)
	if call.args != nil {
		what += " " + string(call.args)
	}
	if len(found) == 0 {
		run.report(c, call.at, false, "%s: no item has this name", what)
		return
	}
	for i := range found {
		x := &found[i]
		var met bool
		switch call.want {
		case "may":
			met = x.Outcome == "allowed"
		case "mayNot":
			met = x.Outcome != "allowed" && x.Outcome != "confirm"
		case "confirm":
			met = x.Outcome == "confirm"
		default:
			met = x.Outcome == "needs"
		}
		kind := ""
		if len(found) > 1 {
			kind = "the " + x.Kind + " is "
		}
		run.report(c, call.at, met, "%s: %s%s", what, kind, x)
	}
}

// runSees compares what the caller sees with all that it should see.
func (run *testRun) runSees(c *testCase) {
	names, _ := run.g.Sees(c.as.identity(), c.as.peer(), run.profile)
	for _, one := range c.sees {
		matches := func(name string) bool { return glob.Match(one.pattern, name) }
		n := 0
		for _, name := range names {
			if matches(name) {
				n++
			}
		}
		run.report(c, one.at, n > 0, "sees %s: %s", one.pattern, output.Plural(n, "item"))
		names = slices.DeleteFunc(names, matches)
	}
	const most = 10
	if len(names) > most {
		names = append(names[:most:most], fmt.Sprintf("%d more", len(names)-most))
	}
	if len(names) > 0 {
		run.report(c, c.at, false, "also sees %s", strings.Join(names, ", "))
	} else {
		run.report(c, c.at, true, "sees nothing else")
	}
}
