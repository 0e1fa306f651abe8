// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/report"
)

// writePage puts the tables into the page, and the plots beside it. Of groups that were
// not measured the page keeps what it has.
func (b *bench) writePage() error {
	text, err := os.ReadFile(b.update)
	if err != nil {
		return err
	}
	page := string(text)
	for name, tables := range b.tables {
		if page, err = report.Put(page, name, b.section(name, tables)); err != nil {
			return err
		}
	}
	if b.groups == "" {
		for name, text := range map[string]string{"marks": b.verdicts(), "times": b.times().String() + "\n" + b.origin("", whole)} {
			if page, err = report.Put(page, name, text); err != nil {
				return err
			}
		}
	}
	return errors.Join(os.WriteFile(b.update, []byte(page), 0o644), b.writePlots()) //nolint:gosec // it is for everybody to read
}

// section is what the page says of a group: with what was measured, where and when.
func (b *bench) section(name string, tables []*report.Table) string {
	var s strings.Builder
	for _, t := range tables {
		fmt.Fprintf(&s, "%s\n", t)
	}
	if p, ok := b.plots[name]; ok {
		fmt.Fprintf(&s, "![%s](%s/%s.svg)\n\n", p.Title, filepath.Base(b.plotFolder()), name)
	}
	return s.String() + b.origin(" GROUP="+name, name)
}

// origin says by which command, where and when something was measured.
func (b *bench) origin(argument, group string) string {
	try := ""
	if b.scale < 1 || b.short {
		try = " **A try, of less than is measured usually.**"
	}
	return fmt.Sprintf("`make bench%s`, %d starts in %s; %s; %s.%s\n",
		argument, b.starts, b.tookFor(group), machine(), time.Now().UTC().Format(time.DateOnly), try)
}

// verdicts are all marks, and of what was measured for each the worst, as a table.
func (b *bench) verdicts() string {
	t := report.Table{Title: "Each mark, and the worst that was measured for it", Header: []string{"what", "mark", "measured, the worst", "where", "kept by", "held at", "verdict"}}
	for _, of := range marks.ByMark(marks.Judge(marks.All(), &b.found, false)) {
		worst := marks.Worst(of)
		t.Add(worst.Name, worst.Bound(), marks.Number(worst.Value.Median)+worst.Unit, place(worst.Key),
			fmt.Sprintf("%d of %d", len(of)-len(marks.Missed(of)), len(of)), worst.HeldAt(), verdict(worst))
	}
	for _, m := range b.unmeasured() {
		t.Add(m.Name, m.Bound(), "", "not measured", "", m.HeldAt(), "**missed**")
	}
	return t.String()
}

// verdict is what a reader is to know of a mark, by the worst value for it.
func verdict(worst marks.Verdict) string {
	word := "**missed**"
	if worst.Kept() {
		word = "kept"
	}
	if worst.Red() && worst.Held != 0 {
		word += ", and worse than it was"
	}
	return word
}

// place is where a value was measured, which is its key without the first and the last
// part: the group, and what is in the name of the mark.
func place(key string) string {
	parts := strings.Split(key, "/")
	return strings.Join(parts[1:len(parts)-1], ", ")
}

// plotFolder is the folder beside the page that has its name.
func (b *bench) plotFolder() string { return strings.TrimSuffix(b.update, filepath.Ext(b.update)) }

// writePlots writes the plots into their folder.
func (b *bench) writePlots() error {
	dir := b.plotFolder()
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // it is for everybody to read
		return err
	}
	for name, p := range b.plots {
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), []byte(p.SVG()), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// machine says what was measured on.
func machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		text = nil // another system
	}
	return fmt.Sprintf("%d cores of %s, %s/%s, %s", runtime.NumCPU(), processor(string(text)), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// processor is the model of the first processor that Linux lists.
func processor(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return "an unknown processor"
}
