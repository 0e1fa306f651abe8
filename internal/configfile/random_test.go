// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// trickyWords returns texts that careless code could read as another kind, as syntax, or as
// several characters.
func trickyWords() []string {
	return []string{
		"", "a", "true", "no", "null", "~", "7", "1e3", "0x10", "1_000", ".5", "-", "- a", "a: b", "a #b", "#", "{", "[x]",
		"&a", "*a", "!a", "|", ">", "%", "@", "`", "'", `"`, `\`, "a\tb", "a\nb", "é", "日本", "\u00a0", "a\u200bb", "😀", "<<", "2026-07-28",
		"12:30:45", " a", "a ", "=", "?", ": ", "//", "/* */", "${A}", "\u2028", "\x7f",
	}
}

// randomTree returns a value of the kinds that both syntaxes have.
func randomTree(r *rand.Rand, depth int) Node {
	words := trickyWords()
	word := func() string { return words[r.IntN(len(words))] }
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch r.IntN(kinds) {
	case 0:
		return Node{Kind: Null}
	case 1:
		return Node{Kind: Bool, Text: strconv.FormatBool(r.IntN(2) == 0)}
	case 2:
		return Node{Kind: Integer, Text: strconv.Itoa(r.IntN(2000) - 1000)}
	case 3:
		return Node{Kind: Float, Text: strconv.Itoa(r.IntN(100)) + ".25"}
	case 4:
		return Node{Kind: Text, Text: word()}
	case 5:
		list := Node{Kind: List}
		for range r.IntN(4) {
			list.Items = append(list.Items, randomTree(r, depth-1))
		}
		return list
	default:
		mapping := Node{Kind: Mapping}
		for i := range r.IntN(4) {
			key := word() + strconv.Itoa(i) // unique
			mapping.Members = append(mapping.Members, Member{Key: key, Value: randomTree(r, depth-1)})
		}
		return mapping
	}
}

// writeJSON writes a tree with spaces, line breaks and comments wherever they are permitted,
// and records the position of each value and key.
func writeJSON(r *rand.Rand, out *bytes.Buffer, n *Node) {
	gap(r, out)
	n.At = positionAt(out.Bytes(), out.Len())
	switch n.Kind {
	case Null:
		out.WriteString("null")
	case Text:
		out.Write(quoted(r, n.Text))
	case List:
		out.WriteByte('[')
		for i := range n.Items {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSON(r, out, &n.Items[i])
		}
		gap(r, out)
		out.WriteByte(']')
	case Mapping:
		out.WriteByte('{')
		for i := range n.Members {
			if i > 0 {
				out.WriteByte(',')
			}
			gap(r, out)
			n.Members[i].At = positionAt(out.Bytes(), out.Len())
			out.Write(quoted(r, n.Members[i].Key))
			gap(r, out)
			out.WriteByte(':')
			writeJSON(r, out, &n.Members[i].Value)
		}
		gap(r, out)
		out.WriteByte('}')
	default:
		out.WriteString(n.Text)
	}
}

func gap(r *rand.Rand, out *bytes.Buffer) {
	gaps := []string{"", "", " ", "\n", "\r\n", "\t", "  ", "/* é, \" */", "// é: {[\n", "/**/"}
	out.WriteString(gaps[r.IntN(len(gaps))])
}

// quoted returns a JSON string, sometimes with every character escaped.
func quoted(r *rand.Rand, text string) []byte {
	plain, err := json.Marshal(text)
	if err != nil || r.IntN(3) > 0 {
		return plain
	}
	out := []byte{'"'}
	for _, c := range text {
		if c > 0xffff {
			high, low := 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
			continue
		}
		out = fmt.Appendf(out, `\u%04x`, c)
	}
	return append(out, '"')
}

// TestRandomJSON checks that a written tree is parsed as the same tree, with all positions.
func TestRandomJSON(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		want := randomTree(r, 4)
		var out bytes.Buffer
		writeJSON(r, &out, &want)
		gap(r, &out)
		got, err := Parse(out.Bytes(), true)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, out.Bytes(), err)
		}
		if diff := cmp.Diff(got, want, same()); diff != "" {
			t.Fatalf("seed %d: %s (-got +want):\n%s", seed, out.Bytes(), diff)
		}
	}
}

// plainValue returns a tree as a value for a YAML encoder.
func plainValue(n Node) any {
	switch n.Kind {
	case Bool:
		return n.Text == "true"
	case Integer:
		v, _ := strconv.Atoi(n.Text) // n.text was formatted from it
		return v
	case Float:
		v, _ := strconv.ParseFloat(n.Text, 64)
		return v
	case Text:
		return n.Text
	case List:
		list := make([]any, 0, len(n.Items))
		for _, item := range n.Items {
			list = append(list, plainValue(item))
		}
		return list
	case Mapping:
		mapping := make(yaml.MapSlice, 0, len(n.Members))
		for _, m := range n.Members {
			mapping = append(mapping, yaml.MapItem{Key: m.Key, Value: plainValue(m.Value)})
		}
		return mapping
	default:
		return nil
	}
}

// TestRandomYAML checks that encoded values are parsed as the same values, in block and flow
// style, with positions in the text.
func TestRandomYAML(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		want := randomTree(r, 3)
		if want.Kind != Mapping {
			continue // the root of a config must be a mapping
		}
		for _, flow := range []bool{false, true} {
			text, err := yaml.MarshalWithOptions(plainValue(want), yaml.Flow(flow))
			if err != nil {
				t.Fatal(err)
			}
			theirs, ok := reread(text)
			if !ok || !cmp.Equal(theirs, plainOf(want)) {
				continue // the encoder itself has lost something
			}
			got, problem := Parse(text, false)
			if problem != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, problem)
			}
			if diff := cmp.Diff(plainOf(got), plainOf(want)); diff != "" {
				t.Errorf("seed %d: %s (-got +want):\n%s", seed, text, diff)
			}
			checkPlaces(t, got, strings.Split(string(text), "\n"))
		}
	}
}

// reread returns the value that the library decodes from a text.
func reread(text []byte) (string, bool) {
	var value yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &value, yaml.UseOrderedMap()); err != nil {
		return "", false
	}
	return fmt.Sprintf("%#v", normal(value)), true
}

func plainOf(n Node) string { return fmt.Sprintf("%#v", normal(plainValue(n))) }

// normal converts equivalent values to one form.
func normal(v any) any {
	switch v := v.(type) {
	case yaml.MapSlice:
		var out [][2]any
		for _, item := range v {
			out = append(out, [2]any{item.Key, normal(item.Value)})
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, normal(item))
		}
		return out
	case uint64:
		return int64(v)
	case int:
		return int64(v)
	default:
		return v
	}
}

// checkPlaces checks that the position of each value and key is in the text.
func checkPlaces(t *testing.T, n Node, lines []string) {
	t.Helper()
	check := func(at Position) {
		if at.Line < 1 || at.Line > len(lines) || at.Column < 1 || at.Column > utf8.RuneCountInString(lines[at.Line-1])+1 {
			t.Errorf("%q: %v is not in it", lines, at)
		}
	}
	check(n.At)
	for _, item := range n.Items {
		checkPlaces(t, item, lines)
	}
	for _, m := range n.Members {
		check(m.At)
		checkPlaces(t, m.Value, lines)
	}
}
