// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

// The oracle reads a message with an independent JSON library, and with a second
// implementation of the rules. Parse must agree with it on every input.

// replaceHalfPairs replaces each unpaired surrogate by \ufffd, which has the same
// length: the library rejects them, while the scanner forwards them. Outside strings a
// backslash is an error in either case.
func replaceHalfPairs(data []byte) []byte {
	out := bytes.Clone(data)
	for i := 0; i+1 < len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		i++
		r, ok := escapedRune(out[i:])
		if !ok || !utf16.IsSurrogate(r) {
			continue
		}
		if i+10 < len(out) && out[i+5] == '\\' {
			if low, ok := escapedRune(out[i+6:]); ok && utf16.DecodeRune(r, low) != '\uFFFD' {
				i += 10
				continue
			}
		}
		copy(out[i+1:], "fffd")
	}
	return out
}

func escapedRune(b []byte) (rune, bool) {
	if len(b) < 5 || b[0] != 'u' {
		return 0, false
	}
	return hex4(b[1:])
}

// isJSON reports whether data is one JSON text, duplicate names allowed.
func isJSON(data []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(replaceHalfPairs(data)), jsontext.AllowDuplicateNames(true))
	if d.SkipValue() != nil {
		return false
	}
	_, err := d.ReadToken()
	return errors.Is(err, io.EOF)
}

type pair struct {
	name  string
	value []byte
	half  bool // the name has an unpaired surrogate
}

// pairs returns the members of a valid object in order.
func pairs(t testing.TB, object []byte) []pair {
	t.Helper()
	mended := replaceHalfPairs(object)
	d := jsontext.NewDecoder(bytes.NewReader(mended), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	var out []pair
	for d.PeekKind() != '}' {
		from := d.InputOffset()
		name, err := d.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		text, to := name.String(), d.InputOffset()
		value, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		end := int(d.InputOffset())
		out = append(out, pair{
			name:  text,
			value: object[end-len(value) : end],
			half:  !bytes.Equal(mended[from:to], object[from:to]),
		})
	}
	return out
}

func lookup(members []pair, name string) ([]byte, bool) {
	for _, m := range members {
		if m.name == name {
			return m.value, true
		}
	}
	return nil, false
}

// sameFolded reports equality under Unicode simple folding, which encoding/json uses
// for names.
func sameFolded(name, word string) bool { return name != word && strings.EqualFold(name, word) }

// unambiguous is the rule for names at one level.
func unambiguous(members []pair, known ...string) bool {
	seen := map[string]bool{}
	for _, m := range members {
		if m.half || seen[m.name] {
			return false
		}
		seen[m.name] = true
		for _, k := range known {
			if sameFolded(m.name, k) {
				return false
			}
		}
	}
	return true
}

// allUnambiguous is the rule for an object and the objects inside it.
func allUnambiguous(t testing.TB, value []byte) bool {
	if value[0] != '{' {
		return true
	}
	members := pairs(t, value)
	return unambiguous(members) && !slices.ContainsFunc(members, func(m pair) bool { return !allUnambiguous(t, m.value) })
}

func topKeys() []string {
	var keys []string
	for f := FieldName; f <= FieldMeta; f++ {
		keys = append(keys, f.Key())
	}
	return keys
}

// wellNamed checks the names of params, result or error, and of the levels inside.
func wellNamed(t testing.TB, object []byte, isParams, isError bool) bool {
	members := pairs(t, object)
	known := topKeys()
	if !isParams {
		known = nil
	}
	if !unambiguous(members, known...) {
		return false
	}
	if caps, ok := lookup(members, "capabilities"); ok && isParams && !allUnambiguous(t, caps) {
		return false
	}
	if meta, ok := lookup(members, "_meta"); ok && !isError && meta[0] == '{' {
		inside := pairs(t, meta)
		caps, ok := lookup(inside, "io.modelcontextprotocol/clientCapabilities")
		if !unambiguous(inside) || ok && !allUnambiguous(t, caps) {
			return false
		}
	}
	ref, ok := lookup(members, "ref")
	if !ok || isError || ref[0] != '{' {
		return true
	}
	if !isParams {
		return unambiguous(pairs(t, ref))
	}
	return unambiguous(pairs(t, ref), "type", "name", "uri")
}

// kindOfMessage applies the rules of the envelope to a JSON text.
func kindOfMessage(t testing.TB, data []byte) Kind {
	data = bytes.TrimSpace(data)
	if data[0] != '{' {
		return KindInvalid
	}
	env := pairs(t, data)
	if !unambiguous(env, "jsonrpc", "id", "method", "params", "result", "error") {
		return KindInvalid
	}
	for _, name := range []string{"params", "result", "error"} {
		v, ok := lookup(env, name)
		if ok && v[0] == '{' && !wellNamed(t, v, name == "params", name == "error") {
			return KindInvalid
		}
	}
	version, ok := lookup(env, "jsonrpc")
	if !ok || plainText(version) != "2.0" || version[0] != '"' {
		return KindInvalid
	}
	id, hasID := lookup(env, "id")
	method, hasMethod := lookup(env, "method")
	params, hasParams := lookup(env, "params")
	result, hasResult := lookup(env, "result")
	wireErr, hasError := lookup(env, "error")
	goodID := hasID && isGoodID(id)
	switch {
	case hasID && !goodID && string(id) != "null":
		return KindInvalid
	case hasMethod && (method[0] != '"' || hasHalf(method) || hasResult || hasError || hasParams && params[0] != '{'):
		return KindInvalid
	case hasMethod && goodID:
		return KindRequest
	case hasMethod && !hasID:
		return KindNotification
	case hasMethod, hasParams, hasResult == hasError:
		return KindInvalid
	case hasResult && goodID && result[0] == '{':
		return KindResult
	case hasError && wireErr[0] == '{':
		return KindError
	default:
		return KindInvalid
	}
}

func hasHalf(token []byte) bool { return !bytes.Equal(replaceHalfPairs(token), token) }

func isGoodID(token []byte) bool {
	switch {
	case len(token) > 1024:
		return false
	case token[0] == '"':
		return !hasHalf(token)
	default:
		return strings.Trim(string(token), "-0123456789") == ""
	}
}

func plainText(token []byte) string {
	b, err := jsontext.AppendUnquote(nil, replaceHalfPairs(token))
	if err != nil {
		return ""
	}
	return string(b)
}

func depthOf(data []byte) int {
	deepest, depth, inside := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case !inside && (c == '{' || c == '['):
			depth++
			deepest = max(deepest, depth)
		case !inside && (c == '}' || c == ']'):
			depth--
		}
	}
	return deepest
}

// checkAgainstOracle fails if Parse and the oracle disagree.
func checkAgainstOracle(t testing.TB, data []byte) {
	t.Helper()
	m, err := Parse(data, Limits{})
	want := KindInvalid
	valid := isJSON(data)
	if valid && depthOf(data) <= defaultDepth {
		want = kindOfMessage(t, data)
	}
	if m.Kind != want || (err == nil) != (want != KindInvalid) {
		t.Fatalf("Parse(%q) = %v, %v; the oracle says %v", data, m.Kind, err, want)
	}
	if err == nil {
		checkParts(t, &m)
		return
	}
	var pe *ParseError
	if !errors.As(err, &pe) || pe.Offset < 0 || pe.Offset > len(data) {
		t.Fatalf("Parse(%q): %#v", data, err)
	}
	checkOneLine(t, err)
	if pe.Code == CodeParseError && valid && !hasHalf(data) {
		t.Fatalf("Parse(%q): %v, of a valid JSON text", data, err)
	}
}

// checkParts compares the parts of a message with those that the oracle finds.
func checkParts(t testing.TB, m *Message) {
	t.Helper()
	env := pairs(t, bytes.TrimSpace(m.Raw))
	id, _ := lookup(env, "id")
	if string(id) == "null" {
		id = nil
	}
	if m.ID.String() != string(id) {
		t.Fatalf("id of %q: %q, want %q", m.Raw, m.ID, id)
	}
	method, _ := lookup(env, "method")
	if m.Method != plainText(method) {
		t.Fatalf("method of %q: %q, want %q", m.Raw, m.Method, plainText(method))
	}
	params, _ := lookup(env, "params")
	checkObject(t, &m.Params, params)
	result, _ := lookup(env, "result")
	checkObject(t, &m.Result.Object, result)
	if wireErr, _ := lookup(env, "error"); !bytes.Equal(m.Error, wireErr) {
		t.Fatalf("error of %q: %q, want %q", m.Raw, m.Error, wireErr)
	}
}

func checkObject(t testing.TB, o *Object, raw []byte) {
	t.Helper()
	if !bytes.Equal(o.Bytes(), raw) || o.IsZero() != (raw == nil) {
		t.Fatalf("object %q, want %q", o.Bytes(), raw)
	}
	if raw == nil {
		return
	}
	top := pairs(t, raw)
	inside := map[Field][]pair{FieldNone: top}
	for _, parent := range []Field{FieldMeta, FieldRef} {
		v, ok := lookup(top, parent.Key())
		if ok && v[0] == '{' {
			inside[parent] = pairs(t, v)
		}
	}
	for f := FieldName; f < numFields; f++ {
		want, has := lookup(inside[f.parent()], f.Key())
		if got := o.Raw(f); !bytes.Equal(got, want) || o.Has(f) != has {
			t.Fatalf("%s of %q: %q (present %v), want %q (%v)", f.Key(), raw, got, o.Has(f), want, has)
		}
		text, ok := o.Text(f)
		isText := has && want[0] == '"' && !hasHalf(want)
		if ok != isText || isText && text != plainText(want) {
			t.Fatalf("text of %s in %q: %q, %v", f.Key(), raw, text, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range goodMessages() {
		f.Add([]byte(tt.in))
	}
	for _, tt := range badMessages() {
		f.Add([]byte(tt.in))
	}
	for _, text := range []string{modernCall, denseResult(500), wideResult(300), textResult(300), toolsResult(500)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkAgainstOracle(t, data) })
}
