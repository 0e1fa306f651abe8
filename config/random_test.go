// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

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
func randomTree(r *rand.Rand, depth int) node {
	words := trickyWords()
	word := func() string { return words[r.IntN(len(words))] }
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch r.IntN(kinds) {
	case 0:
		return node{kind: kindNull}
	case 1:
		return node{kind: kindBool, text: strconv.FormatBool(r.IntN(2) == 0)}
	case 2:
		return node{kind: kindInteger, text: strconv.Itoa(r.IntN(2000) - 1000)}
	case 3:
		return node{kind: kindFloat, text: strconv.Itoa(r.IntN(100)) + ".25"}
	case 4:
		return node{kind: kindText, text: word()}
	case 5:
		list := node{kind: kindList}
		for range r.IntN(4) {
			list.items = append(list.items, randomTree(r, depth-1))
		}
		return list
	default:
		mapping := node{kind: kindMapping}
		for i := range r.IntN(4) {
			key := word() + strconv.Itoa(i) // unique
			mapping.members = append(mapping.members, member{key: key, value: randomTree(r, depth-1)})
		}
		return mapping
	}
}

// writeJSON writes a tree with spaces, line breaks and comments wherever they are permitted,
// and records the position of each value and key.
func writeJSON(r *rand.Rand, out *bytes.Buffer, n *node) {
	gap(r, out)
	n.at = positionAt(out.Bytes(), out.Len())
	switch n.kind {
	case kindNull:
		out.WriteString("null")
	case kindText:
		out.Write(quoted(r, n.text))
	case kindList:
		out.WriteByte('[')
		for i := range n.items {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSON(r, out, &n.items[i])
		}
		gap(r, out)
		out.WriteByte(']')
	case kindMapping:
		out.WriteByte('{')
		for i := range n.members {
			if i > 0 {
				out.WriteByte(',')
			}
			gap(r, out)
			n.members[i].at = positionAt(out.Bytes(), out.Len())
			out.Write(quoted(r, n.members[i].key))
			gap(r, out)
			out.WriteByte(':')
			writeJSON(r, out, &n.members[i].value)
		}
		gap(r, out)
		out.WriteByte('}')
	default:
		out.WriteString(n.text)
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
		got, err := parseTree(out.Bytes(), true)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, out.Bytes(), err)
		}
		if diff := cmp.Diff(got, want, same()); diff != "" {
			t.Fatalf("seed %d: %s (-got +want):\n%s", seed, out.Bytes(), diff)
		}
	}
}

// plainValue returns a tree as a value for a YAML encoder.
func plainValue(n node) any {
	switch n.kind {
	case kindBool:
		return n.text == "true"
	case kindInteger:
		v, _ := strconv.Atoi(n.text) // n.text was formatted from it
		return v
	case kindFloat:
		v, _ := strconv.ParseFloat(n.text, 64)
		return v
	case kindText:
		return n.text
	case kindList:
		list := make([]any, 0, len(n.items))
		for _, item := range n.items {
			list = append(list, plainValue(item))
		}
		return list
	case kindMapping:
		mapping := make(yaml.MapSlice, 0, len(n.members))
		for _, m := range n.members {
			mapping = append(mapping, yaml.MapItem{Key: m.key, Value: plainValue(m.value)})
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
		if want.kind != kindMapping {
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
			got, problem := parseTree(text, false)
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

func plainOf(n node) string { return fmt.Sprintf("%#v", normal(plainValue(n))) }

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
func checkPlaces(t *testing.T, n node, lines []string) {
	t.Helper()
	check := func(at position) {
		if at.line < 1 || at.line > len(lines) || at.column < 1 || at.column > utf8.RuneCountInString(lines[at.line-1])+1 {
			t.Errorf("%q: %v is not in it", lines, at)
		}
	}
	check(n.at)
	for _, item := range n.items {
		checkPlaces(t, item, lines)
	}
	for _, m := range n.members {
		check(m.at)
		checkPlaces(t, m.value, lines)
	}
}

// TestBrokenFilesShowNoSecret modifies a valid file at every position: a character is removed,
// doubled, or replaced by a syntax character. The messages must not contain secrets, except
// for a secret that has become a key, which cannot be distinguished from other names.
func TestBrokenFilesShowNoSecret(t *testing.T) {
	const yamlText = "mcpServers:\n  a:\n    command: x\n    env:\n      K: " + secretText + "\n      L: \"" + secretText + "\"\n" +
		"  b: {url: \"https://h/?k=" + secretText + "\", headers: {H: '" + secretText + "'}}\n"
	const jsonText = `{"mcpServers": {"a": {"command": "x", "args": ["` + secretText + `"], "env": {"K": "` + secretText + `"}}}}`
	for name, text := range map[string]string{"x.yaml": yamlText, "x.json": jsonText} {
		if _, err := Parse(name, []byte(text), nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		broken := 0
		for i := range text {
			for _, with := range []string{"", text[i:i+1] + text[i:i+1], "\n", "\t", `"`, ":", "{", "|", "${"} {
				damaged := text[:i] + with + text[i+1:]
				_, err := Parse(name, []byte(damaged), nil)
				if err == nil || keyHas(damaged, name == "x.json", "hunter2") {
					continue
				}
				broken++
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%q: %v", damaged, err)
				}
			}
		}
		if broken < len(text) {
			t.Errorf("%s: only %d of the damaged files were refused", name, broken)
		}
	}
}

// keyHas reports whether a part of the secret occurs in a key of the file.
func keyHas(text string, isJSON bool, part string) bool {
	tree, err := parseTree([]byte(text), isJSON)
	return err == nil && anyKey(tree, part)
}

func anyKey(n node, part string) bool {
	for _, m := range n.members {
		if strings.Contains(m.key, part) || anyKey(m.value, part) {
			return true
		}
	}
	for _, item := range n.items {
		if anyKey(item, part) {
			return true
		}
	}
	return false
}
