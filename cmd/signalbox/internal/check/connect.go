// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
)

// connect is check for a file and its servers: it starts or reaches those that are enabled, and prints
// what is wrong with them, a summary, and the notes.
func connect(ctx context.Context, e *command.Env, src source.Source, strict bool) error {
	cfg, err := src.Load()
	if err != nil {
		return printInvalid(e, src.Path, err)
	}
	noteMore(ctx, e, src.Path, cfg)
	servers := Enabled(cfg)
	NoteStart(e, len(servers))
	var identity config.Problems
	var t *trial
	if err := Bounded(ctx, e, func(ctx context.Context) error {
		var all sync.WaitGroup
		// Ends with ctx; waited for below.
		all.Go(func() { identity = Identity(ctx, cfg) })
		t = tryServers(ctx, e, src.Path, cfg, servers, true)
		all.Wait()
		return nil
	}); err != nil {
		return err
	}
	r := report{notes: identity}
	for _, f := range append(slices.Concat(t.servers...), t.others...) {
		r.add(cfg, &f)
	}
	for _, note := range cfg.Notes {
		if !r.has(note) {
			r.notes = append(r.notes, note)
		}
	}
	return r.print(e, src.Path, cfg, t, strict)
}

// report is what check prints of a file that can be used.
type report struct {
	problems, notes config.Problems

	passing int // the number of the problems that may pass without a change
}

// add adds a finding.
func (r *report) add(cfg *config.Config, f *Finding) {
	switch {
	case f.Result == OK:
	case f.Result == Fail && !f.perUser || f.withheld:
		r.problems = append(r.problems, f.inFile(cfg))
		if f.Passes {
			r.passing++
		}
	default:
		r.notes = append(r.notes, f.inFile(cfg))
	}
}

// inFile returns the finding as a problem of the file.
func (f *Finding) inFile(cfg *config.Config) config.Problem {
	if f.problem.Message != "" {
		return f.problem
	}
	path, text := f.Path, f.Text
	if f.Kind == "server" {
		path, text = cmp.Or(path, configpath.Server(f.Name)), fmt.Sprintf("backend %q: %s", f.Name, text)
	}
	p := cfg.Problem(path, text, strings.TrimSuffix(f.Fix, "."))
	p.Code = f.Code
	return p
}

// has reports whether there is a problem of a server with the code of a note on it: a program
// that is missing has a note, too.
func (r *report) has(note config.Problem) bool {
	return note.Code != "" && slices.ContainsFunc(r.problems, func(p config.Problem) bool {
		return p.Code == note.Code && configpath.IsIn(note.Path, p.Path)
	})
}

// print prints the problems, a summary and the notes, each in file order, and returns the error of
// the command.
func (r *report) print(e *command.Env, file string, cfg *config.Config, t *trial, strict bool) error {
	count := "no problems"
	if len(r.problems) > 0 {
		count = output.Plural(len(r.problems), "problem")
	}
	lines := r.lines(r.problems)
	lines = append(lines, fmt.Sprintf("%s: %s, %s: %s", file, count, Count(cfg, "backend"), itemCounts(&t.offered)))
	lines = append(lines, r.lines(r.notes)...)
	if _, err := e.Stdout.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		return err
	}
	failed := len(r.problems) - r.passing
	var why []string
	if failed > 0 {
		why = append(why, output.Plural(failed, "problem"))
	}
	if strict && len(r.notes) > 0 {
		why = append(why, output.Plural(len(r.notes), "note")+", which --strict forbids")
	}
	later := output.Plural(r.passing, "problem") + ", which may pass without a change"
	switch {
	case why == nil && r.passing == 0:
		return nil
	case why == nil:
		return command.Strictf("check %s: %s", file, later)
	case r.passing > 0:
		why = append(why, later)
	}
	return fmt.Errorf("check %s: %s", file, strings.Join(why, "; "))
}

// lines returns problems as lines in file order, in which hidden characters are escaped.
func (r *report) lines(problems config.Problems) (lines []string) {
	sorted := slices.SortedStableFunc(slices.Values(problems), func(a, b config.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, p := range sorted {
		lines = append(lines, output.VisibleLine(p.String()))
	}
	return lines
}
