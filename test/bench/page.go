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

// writePage writes the tables into the page, and the plots beside it. The page keeps the
// content of groups that were not measured.
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
	return errors.Join(os.WriteFile(b.update, []byte(page), 0o644), b.writePlots()) //nolint:gosec // a public file
}

// section returns a group's part of the page: its tables and how, where and when they were
// measured.
func (b *bench) section(name string, tables []*report.Table) string {
	var s strings.Builder
	for _, t := range tables {
		fmt.Fprintf(&s, "%s\n", t)
	}
	if p, ok := b.plots[name]; ok {
		fmt.Fprintf(&s, "![%s](%s/%s.svg)\n\n", p.Title, filepath.Base(b.plotFolder()), name)
	}
	argument := " GROUP=" + name
	if name == groupBefore {
		argument += " BEFORE=path"
	}
	return s.String() + b.origin(argument, name)
}

// origin returns the command, the place and the date of a measurement.
func (b *bench) origin(argument, group string) string {
	try := ""
	if b.scale < 1 || b.short {
		try = " **Trial run with less than the usual amount of work.**"
	}
	return fmt.Sprintf("`make bench%s`, %d starts in %s; %s; %s.%s\n",
		argument, b.starts, b.tookFor(group), machine(), time.Now().UTC().Format(time.DateOnly), try)
}

// verdicts returns all marks, each with its worst value, as a table.
func (b *bench) verdicts() string {
	t := report.Table{Title: "Each mark and its worst measured value", Header: []string{"what", "mark", "worst value", "where", "kept by", "bound", "verdict"}}
	for _, of := range marks.ByMark(marks.Judge(marks.All(), &b.found, false)) {
		worst := marks.Worst(of)
		t.Add(worst.Name, worst.LimitText(), marks.Number(worst.Value.Median)+worst.Unit, place(worst.Key),
			fmt.Sprintf("%d of %d", len(of)-len(marks.Missed(of)), len(of)), worst.BoundText(), verdict(worst))
	}
	for _, m := range b.unmeasured() {
		t.Add(m.Name, m.LimitText(), "", "not measured", "", m.BoundText(), "**missed**")
	}
	return t.String()
}

// verdict describes a mark for a reader, by its worst value.
func verdict(worst marks.Verdict) string {
	word := "**missed**"
	if worst.Kept() {
		word = "kept"
	}
	if worst.Red() && worst.Bound != 0 {
		word += ", and worse than its bound"
	}
	return word
}

// place returns where a value was measured: its key without the first and the last part,
// which are the group and a part of the mark's name.
func place(key string) string {
	parts := strings.Split(key, "/")
	return strings.Join(parts[1:len(parts)-1], ", ")
}

// plotFolder returns the folder beside the page that has its name.
func (b *bench) plotFolder() string { return strings.TrimSuffix(b.update, filepath.Ext(b.update)) }

// writePlots writes the plots into their folder.
func (b *bench) writePlots() error {
	dir := b.plotFolder()
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a public file
		return err
	}
	for name, p := range b.plots {
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), []byte(p.SVG()), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// machine describes the machine of the measurement.
func machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		text = nil // another system
	}
	return fmt.Sprintf("%d cores of %s, %s/%s, %s", runtime.NumCPU(), processor(string(text)), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// processor returns the model of the first processor that Linux lists.
func processor(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return "an unknown processor"
}
