// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object as transmitted: its members in their order, with the bytes of
// their names and values.
type object []member

type member struct {
	name       string
	key, value jsontext.Value
}

func parseObject(raw []byte) (object, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, fmt.Errorf("no object: %s (%w)", raw, err)
	}
	var o object
	for dec.PeekKind() != '}' {
		key, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		key = key.Clone()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		name, err := jsontext.AppendUnquote(nil, key)
		if err != nil {
			return nil, err
		}
		o = append(o, member{string(name), key, value.Clone()})
	}
	return o, nil
}

// get returns the value of a member, or nil.
func (o object) get(name string) jsontext.Value {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (o object) has(name string) bool { return o.get(name) != nil }

// text returns a member as a string, or "" if it is not one.
func (o object) text(name string) string {
	b, err := jsontext.AppendUnquote(nil, o.get(name))
	if err != nil {
		return ""
	}
	return string(b)
}

// without returns the object without some members.
func (o object) without(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(names, m.name) })
}

// only returns the object with only these members.
func (o object) only(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return !slices.Contains(names, m.name) })
}

// with returns the object with a member set, in its place or at the end.
func (o object) with(name, value string) object {
	m := member{name, quoted(name), jsontext.Value(value)}
	o = slices.Clone(o)
	if i := slices.IndexFunc(o, func(m member) bool { return m.name == name }); i >= 0 {
		o[i] = m
		return o
	}
	return append(o, m)
}

// withoutMeta returns the object without some members of its _meta, and without
// _meta if nothing else is in there.
func (o object) withoutMeta(names ...string) object {
	meta, err := parseObject(o.get("_meta"))
	if err != nil {
		return o
	}
	if meta = meta.without(names...); len(meta) == 0 {
		return o.without("_meta")
	}
	return o.with("_meta", meta.String())
}

// meta returns a member of _meta, or nil.
func (o object) meta(name string) jsontext.Value {
	meta, err := parseObject(o.get("_meta"))
	if err != nil {
		return nil
	}
	return meta.get(name)
}

// String returns the object without the white space between its tokens. Strings and
// numbers are unmodified.
func (o object) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m.key)
		b.WriteByte(':')
		b.WriteString(compact(m.value))
	}
	b.WriteByte('}')
	return b.String()
}

func quoted(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return jsontext.Value(`""`)
	}
	return b
}

// compact removes the white space between tokens and nothing else.
func compact(raw []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// compactLine returns a line of an expectation with its JSON compacted.
func compactLine(line string) string {
	for i := range line {
		if (line[i] == '{' || line[i] == '[') && json.Valid([]byte(line[i:])) {
			return line[:i] + compact([]byte(line[i:]))
		}
	}
	return line
}

var repetition = regexp.MustCompile(`\$\((.)\*(\d+)\)`)

// expand replaces $(x*1000) by a thousand x.
func expand(s string) string {
	return repetition.ReplaceAllStringFunc(s, func(m string) string {
		parts := repetition.FindStringSubmatch(m)
		n, err := strconv.Atoi(parts[2])
		if err != nil {
			return m
		}
		return strings.Repeat(parts[1], n)
	})
}

// collapse is the reverse of expand, for long runs.
func collapse(s string) string {
	const most = 100
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i + 1
		for j < len(s) && s[j] == s[i] {
			j++
		}
		if j-i > most {
			fmt.Fprintf(&b, "$(%c*%d)", s[i], j-i)
		} else {
			b.WriteString(s[i:j])
		}
		i = j
	}
	return b.String()
}

// tokens splits the text of a command: JSON values with an opening brace, bracket or
// quote stay whole, all else is words.
func tokens(s string) ([]string, error) {
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if !strings.ContainsRune(`{["`, rune(s[0])) {
			word, rest, _ := strings.Cut(s, " ")
			out, s = append(out, word), rest
			continue
		}
		dec := json.NewDecoder(strings.NewReader(s))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%w in %s", err, s)
		}
		out, s = append(out, string(value)), s[dec.InputOffset():]
	}
	return out, nil
}
