// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// writer writes a random file in one of the styles, with comments wherever they are permitted.
type writer struct {
	*rand.Rand
	out      strings.Builder
	json     bool
	comments bool // JSON may have none
	trailing bool // commas after the last member

	unit     string
	names    []string
	mark     int            // numbers the comments
	starts   map[string]int // the last comment before each server
	keyQuote []string       // how keys are quoted
	entries  map[string][]string
}

// some returns true once in n times.
func (w *writer) some(n int) bool { return w.IntN(n) == 0 }

func pick[T any](w *writer, from ...T) T { return from[w.IntN(len(from))] }

// note returns a comment in the syntax of the file, with a number.
func (w *writer) note() string {
	w.mark++
	text := fmt.Sprintf("c%d.%s", w.mark, pick(w, "", " é {[", " \"x", " it's: a", " 日本 # -", ` \`, " ,"))
	switch {
	case !w.json:
		return "# " + text
	case w.some(3):
		return "/* " + text + " */"
	default:
		return "// " + text
	}
}

// gapLines writes comments and blank lines between two members of a block.
func (w *writer) gapLines(indent string) {
	for range w.IntN(3) {
		switch w.IntN(3) {
		case 0:
			w.out.WriteString("\n")
		case 1:
			w.out.WriteString(indent + w.note() + "\n")
		default:
			w.out.WriteString(strings.Repeat(" ", w.IntN(len(indent)+4)) + w.note() + "\n")
		}
	}
}

// lineEnd ends a line, perhaps with a comment.
func (w *writer) lineEnd() {
	if w.some(4) {
		w.out.WriteString(pick(w, " ", "  ") + w.note())
	}
	w.out.WriteString(pick(w, "\n", "\n", "\n", " \n"))
}

func (w *writer) key(name string) string {
	switch q := pick(w, w.keyQuote...); q {
	case "":
		return name
	default:
		return q + name + q
	}
}

func words() []string {
	return []string{"npx", "-y", "@scope/pkg", "https://example.com/mcp?a=b", "it's", `a "b" c`, "é", "日本 x", "${TOKEN}", "true", "12", "", "a # b", "a: b", `C:\x`, "Bearer ${T}", "a, b", "{x}"}
}

// word returns a string, in quotes if the syntax needs them.
func (w *writer) word(flow bool) string {
	text := pick(w, words()...)
	if w.json || w.some(3) {
		return quoted(text)
	}
	if isPlain(text) && (!flow || !strings.Contains(text, ",")) {
		return pick(w, text, text, "'"+text+"'")
	}
	return pick(w, quoted(text), "'"+strings.ReplaceAll(text, "'", "''")+"'")
}

// blockFile writes YAML without brackets around the servers.
func (w *writer) blockFile() {
	w.unit = pick(w, " ", "  ", "  ", "   ", "    ")
	if w.some(8) {
		w.out.WriteString("%YAML 1.2\n---\n")
	}
	w.gapLines("")
	if w.some(2) {
		w.out.WriteString("listen: 127.0.0.1:0")
		w.lineEnd()
		w.gapLines("")
	}
	w.out.WriteString(w.key(pick(w, "mcpServers", "mcpServers", "servers")) + ":")
	if len(w.names) == 0 {
		w.out.WriteString(pick(w, " {}", " { }"))
	}
	w.lineEnd()
	for _, name := range w.names {
		w.gapLines(w.unit)
		w.starts[name] = w.mark
		w.blockEntry(name, w.unit)
	}
	w.gapLines(w.unit)
	if w.some(2) {
		w.out.WriteString(pick(w, "log: {level: debug}", "name: é", "limits:\n   depth: 9", "allowedHosts:\n- a\n- b"))
		w.lineEnd()
		w.gapLines("")
	}
	if w.some(10) {
		w.out.WriteString("...\n")
	}
}

func (w *writer) blockEntry(name, indent string) {
	if w.some(3) {
		w.out.WriteString(indent + w.key(name) + ": ")
		w.flowMapping(indent+w.unit, w.entries[name], w.some(3))
		w.lineEnd()
		return
	}
	w.out.WriteString(indent + w.key(name) + ":")
	w.lineEnd()
	inner := indent + pick(w, w.unit, w.unit, "  ", "   ")
	for _, key := range w.entries[name] {
		w.gapLines(inner)
		w.out.WriteString(inner + w.key(key) + ":")
		w.blockValue(key, inner)
	}
}

func (w *writer) blockValue(key, indent string) {
	switch key {
	case "args":
		if w.some(2) {
			w.out.WriteString(" ")
			w.flowList(indent+w.unit, w.some(3))
			w.lineEnd()
			return
		}
		w.lineEnd()
		dash := indent + pick(w, "", "  ")
		for range 1 + w.IntN(3) {
			w.gapLines(dash)
			w.out.WriteString(dash + "- " + w.word(false))
			w.lineEnd()
		}
	case "env", "headers":
		if w.some(2) {
			w.out.WriteString(" ")
			w.flowMapping(indent+w.unit, []string{"A", "B"}, w.some(3))
			w.lineEnd()
			return
		}
		w.lineEnd()
		for _, name := range []string{"A", "B"} {
			w.gapLines(indent + "  ")
			w.out.WriteString(indent + "  " + name + ": " + w.word(false))
			w.lineEnd()
		}
	default:
		switch w.IntN(8) {
		case 0: // block scalars, in which # is no comment
			w.out.WriteString(" " + pick(w, "|", ">", "|-", ">-") + "\n")
			for _, line := range []string{"x", "# no comment", "", "  y: é"}[:1+w.IntN(4)] {
				if line != "" {
					line = indent + "  " + line
				}
				w.out.WriteString(line + "\n")
			}
		case 1:
			w.out.WriteString(" \"a\n" + indent + "  # no comment\n" + indent + "   é\"")
			w.lineEnd()
		case 2:
			w.out.WriteString(" plain\n" + indent + "  words, it's\n" + indent + "  é # c")
			w.lineEnd()
		default:
			w.out.WriteString(" " + w.word(false))
			w.lineEnd()
		}
	}
}

// gap writes white space and comments inside of brackets on one line.
func (w *writer) gap() {
	w.out.WriteString(pick(w, "", "", " "))
	if w.json && w.comments && w.some(12) {
		w.mark++
		fmt.Fprintf(&w.out, "/* c%d. é } */", w.mark)
	}
}

// flowMapping writes a mapping in braces, with indented lines.
func (w *writer) flowMapping(indent string, keys []string, lines bool) {
	w.flow(indent, "{}", len(keys), lines, func(i int) {
		key := keys[i]
		name := key
		if w.entries[key] != nil {
			w.starts[key] = w.mark
		}
		w.out.WriteString(w.key(name) + pick(w, ": ", ": ", ":  "))
		switch {
		case w.entries[key] != nil:
			w.flowMapping(indent+w.unit, w.entries[key], lines && !w.some(4))
		case key == "args":
			w.flowList(indent+w.unit, lines && w.some(2))
		case key == "env" || key == "headers":
			w.flowMapping(indent+w.unit, []string{"A", "B"}, lines && w.some(2))
		default:
			w.out.WriteString(w.word(true))
		}
	})
}

func (w *writer) flowList(indent string, lines bool) {
	w.flow(indent, "[]", w.IntN(4), lines, func(int) { w.out.WriteString(w.word(true)) })
}

// flow writes n elements in brackets.
func (w *writer) flow(indent, marks string, n int, lines bool, element func(i int)) {
	comments := w.comments || !w.json
	w.out.WriteString(marks[:1])
	if n == 0 {
		w.out.WriteString(pick(w, "", " ") + marks[1:])
		return
	}
	for i := range n {
		if lines {
			if comments && w.some(6) {
				w.out.WriteString(" " + w.note())
			}
			w.out.WriteString("\n")
			for comments && w.some(4) {
				w.out.WriteString(indent + w.note() + "\n")
			}
			w.out.WriteString(indent)
		} else {
			w.gap()
		}
		element(i)
		if i+1 < n || w.trailing {
			if w.json {
				w.gap()
			}
			w.out.WriteString(",")
			if !lines {
				w.out.WriteString(" ")
			}
		}
	}
	if lines {
		if comments && w.some(4) {
			w.out.WriteString(" " + w.note())
		}
		w.out.WriteString("\n")
		if comments && w.some(4) {
			w.out.WriteString(indent + w.note() + "\n")
		}
		// Not less than the members of a block around it.
		w.out.WriteString(strings.TrimSuffix(indent, w.unit) + pick(w, "", w.unit))
	} else {
		w.gap()
	}
	w.out.WriteString(marks[1:])
}

// braceFile writes a file that is one mapping in braces.
func (w *writer) braceFile() {
	w.unit = pick(w, "  ", "    ", " ")
	if w.json {
		w.unit = pick(w, "  ", "\t", "    ")
	}
	if w.comments && w.some(3) {
		w.out.WriteString(w.note() + "\n")
	}
	lines := !w.some(3)
	before, after := w.some(2), w.some(2)
	w.flow(w.unit, "{}", 3, lines, func(i int) {
		switch {
		case i == 1:
			w.out.WriteString(w.key("mcpServers") + ": ")
			w.flowMapping(w.unit+w.unit, w.names, lines && !w.some(4))
		case i == 0 && before:
			w.out.WriteString(w.key("listen") + ": " + w.word(true))
		case i == 2 && after:
			w.out.WriteString(w.key("log") + ": ")
			w.flowMapping(w.unit+w.unit, []string{"level"}, lines && w.some(2))
		default:
			w.out.WriteString(w.key(fmt.Sprintf("x%d", i)) + ": 1")
		}
	})
	w.out.WriteString("\n")
}

// randomFile returns a file with comments, and the names of its servers.
func randomFile(seed uint64) (File, *writer) {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 1)), starts: make(map[string]int), entries: make(map[string][]string)}
	for _, name := range []string{"files", "git_hub", "wiki-2", "x.y"}[:w.IntN(5)] {
		w.names = append(w.names, name)
		keys := []string{"command", "args", "env", "cwd", "prefix"}
		w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		w.entries[name] = keys[:1+w.IntN(len(keys))]
	}
	f := File{Name: "signalbox.yaml"}
	switch seed % 4 {
	case 0:
		w.keyQuote = []string{pick(w, "", "", "'", `"`)}
		if w.some(4) {
			w.keyQuote = []string{"", `"`}
		}
		w.blockFile()
	case 1:
		w.comments, w.trailing = true, w.some(3)
		w.keyQuote = []string{pick(w, "", "'", `"`)}
		w.braceFile()
	case 2:
		f.Name = "signalbox.json"
		w.json, w.keyQuote = true, []string{`"`}
		w.braceFile()
	default:
		f.Name = "mcp.jsonc"
		w.json, w.comments, w.trailing, w.keyQuote = true, true, w.some(2), []string{`"`}
		w.braceFile()
	}
	text := w.out.String()
	if w.some(3) && !endsInBlock(text) {
		text = strings.TrimRight(text, "\n")
	}
	if w.some(3) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if w.some(16) {
		text = bom + text
	}
	f.Text = []byte(text)
	return f, w
}

// endsInBlock reports whether a line break at the end may be part of a value.
func endsInBlock(text string) bool {
	i := max(strings.LastIndex(text, "|"), strings.LastIndex(text, ">"))
	return i >= 0 && strings.Count(text[i:], "\n") < 8
}

func randomEntry(w *writer) Entry {
	all := Entry{
		{"command", pick(w, words()...)},
		{"args", []string{pick(w, words()...), pick(w, words()...)}},
		{"env", Entry{{"TOKEN", pick(w, words()...)}, {"B", "x"}}},
		{"share", true},
		{"args", []string{}},
		{"n", 7},
	}
	return all[:1+w.IntN(len(all)-2)]
}

// TestThereAndBack checks for random files that a change and its opposite give the same
// bytes, and that each has only the meaning that it should have.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	files := uint64(10_000)
	if testing.Short() {
		files = 600
	}
	for seed := range files {
		f, w := randomFile(seed)
		if _, err := configfile.Parse(f.Text, configfile.IsJSON(f.Name)); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, f.Text)
		}
		check := func(what string, there func(File) ([]byte, error), back func(File) ([]byte, error)) {
			t.Helper()
			changed, err := there(f)
			if err != nil {
				t.Fatalf("seed %d: %s: %v\n%s", seed, what, err, f.Text)
			}
			if bytes.Equal(changed, f.Text) {
				t.Fatalf("seed %d: %s changed nothing\n%s", seed, what, f.Text)
			}
			restored, err := back(File{Name: f.Name, Text: changed})
			if err != nil {
				t.Fatalf("seed %d: back from %s: %v\n%s\n---\n%s", seed, what, err, f.Text, changed)
			}
			if !bytes.Equal(restored, f.Text) {
				t.Fatalf("seed %d: %s and back:\n%q\n%q\n%q\n%s", seed, what, f.Text, changed, restored, changed)
			}
		}
		entry := randomEntry(w)
		check("add", func(f File) ([]byte, error) { return f.Add("new-1", entry) }, func(f File) ([]byte, error) { return f.Remove("new-1") })
		if len(w.names) == 0 {
			continue
		}
		name := w.names[w.IntN(len(w.names))]
		value := pick[any](w, true, "it's", 7, []string{"a", "b c"}, Entry{{"A", "b"}})
		check("set", func(f File) ([]byte, error) { return f.Set(name, "disabled", value) }, func(f File) ([]byte, error) { return f.Unset(name, "disabled") })
		check("rename", func(f File) ([]byte, error) { return f.Rename(name, "other") }, func(f File) ([]byte, error) { return f.Rename("other", name) })
		check("disable", func(f File) ([]byte, error) { return f.Disable(name) }, func(f File) ([]byte, error) { return f.Enable(name) })
		checkRemoved(t, seed, f, w, name)
		if args := f.Values(name, "args"); len(args) > 0 {
			i := w.IntN(len(args))
			check("set an item", func(f File) ([]byte, error) { return f.SetItem(name, "args", i, "new-item") }, func(f File) ([]byte, error) { return f.SetItem(name, "args", i, args[i]) })
		}
	}
}

// checkRemoved checks that a removed server takes no comments with it but those inside of
// its entry.
func checkRemoved(t *testing.T, seed uint64, f File, w *writer, name string) {
	t.Helper()
	removed, err := f.Remove(name)
	if err != nil {
		t.Fatalf("seed %d: remove %s: %v\n%s", seed, name, err, f.Text)
	}
	i := slices.Index(w.names, name)
	for mark := 1; mark <= w.mark; mark++ {
		if mark > w.starts[name] && (i+1 == len(w.names) || mark <= w.starts[w.names[i+1]]) {
			continue // inside of it, or directly below
		}
		if comment := fmt.Appendf(nil, "c%d.", mark); !bytes.Contains(removed, comment) {
			t.Fatalf("seed %d: without %s, comment %s is gone:\n%s\n---\n%s", seed, name, comment, f.Text, removed)
		}
	}
}
