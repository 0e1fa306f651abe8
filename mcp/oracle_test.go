// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// The oracle reads a message with an independent JSON library, and with a second
// implementation of the rules. Parse must agree with it on every input.

// sameFolded reports equality under Unicode simple folding, which encoding/json uses
// for names.
func sameFolded(name, word string) bool { return name != word && strings.EqualFold(name, word) }

// unambiguous is the rule for names at one level.
func unambiguous(members []jsontest.Pair, known ...string) bool {
	seen := map[string]bool{}
	for _, m := range members {
		if m.Half || seen[m.Name] {
			return false
		}
		seen[m.Name] = true
		for _, k := range known {
			if sameFolded(m.Name, k) {
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
	members := jsontest.Pairs(t, value)
	return unambiguous(members) && !slices.ContainsFunc(members, func(m jsontest.Pair) bool { return !allUnambiguous(t, m.Value) })
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
	members := jsontest.Pairs(t, object)
	known := topKeys()
	if !isParams {
		known = nil
	}
	if !unambiguous(members, known...) {
		return false
	}
	if caps, ok := jsontest.Lookup(members, "capabilities"); ok && isParams && !allUnambiguous(t, caps) {
		return false
	}
	if meta, ok := jsontest.Lookup(members, "_meta"); ok && !isError && meta[0] == '{' {
		inside := jsontest.Pairs(t, meta)
		caps, ok := jsontest.Lookup(inside, "io.modelcontextprotocol/clientCapabilities")
		if !unambiguous(inside) || ok && !allUnambiguous(t, caps) {
			return false
		}
	}
	ref, ok := jsontest.Lookup(members, "ref")
	if !ok || isError || ref[0] != '{' {
		return true
	}
	if !isParams {
		return unambiguous(jsontest.Pairs(t, ref))
	}
	return unambiguous(jsontest.Pairs(t, ref), "type", "name", "uri")
}

// kindOfMessage applies the rules of the envelope to a JSON text.
func kindOfMessage(t testing.TB, data []byte) Kind {
	data = bytes.TrimSpace(data)
	if data[0] != '{' {
		return KindInvalid
	}
	env := jsontest.Pairs(t, data)
	if !unambiguous(env, "jsonrpc", "id", "method", "params", "result", "error") {
		return KindInvalid
	}
	for _, name := range []string{"params", "result", "error"} {
		v, ok := jsontest.Lookup(env, name)
		if ok && v[0] == '{' && !wellNamed(t, v, name == "params", name == "error") {
			return KindInvalid
		}
	}
	version, ok := jsontest.Lookup(env, "jsonrpc")
	if !ok || jsontest.PlainText(version) != "2.0" || version[0] != '"' {
		return KindInvalid
	}
	id, hasID := jsontest.Lookup(env, "id")
	method, hasMethod := jsontest.Lookup(env, "method")
	params, hasParams := jsontest.Lookup(env, "params")
	result, hasResult := jsontest.Lookup(env, "result")
	wireErr, hasError := jsontest.Lookup(env, "error")
	goodID := hasID && isGoodID(id)
	switch {
	case hasID && !goodID && string(id) != "null":
		return KindInvalid
	case hasMethod && (method[0] != '"' || jsontest.HasHalf(method) || hasResult || hasError || hasParams && params[0] != '{'):
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

func isGoodID(token []byte) bool {
	switch {
	case len(token) > 1024:
		return false
	case token[0] == '"':
		return !jsontest.HasHalf(token)
	default:
		return strings.Trim(string(token), "-0123456789") == ""
	}
}

// checkAgainstOracle fails if Parse and the oracle disagree.
func checkAgainstOracle(t testing.TB, data []byte) {
	t.Helper()
	m, err := Parse(data, Limits{})
	want := KindInvalid
	valid := jsontest.IsJSON(data)
	if valid && jsontest.DepthOf(data) <= 128 {
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
	if pe.Code == CodeParseError && valid && !jsontest.HasHalf(data) {
		t.Fatalf("Parse(%q): %v, of a valid JSON text", data, err)
	}
}

// checkParts compares the parts of a message with those that the oracle finds.
func checkParts(t testing.TB, m *Message) {
	t.Helper()
	env := jsontest.Pairs(t, bytes.TrimSpace(m.Raw))
	id, _ := jsontest.Lookup(env, "id")
	if string(id) == "null" {
		id = nil
	}
	if m.ID.String() != string(id) {
		t.Fatalf("id of %q: %q, want %q", m.Raw, m.ID, id)
	}
	method, _ := jsontest.Lookup(env, "method")
	if m.Method != jsontest.PlainText(method) {
		t.Fatalf("method of %q: %q, want %q", m.Raw, m.Method, jsontest.PlainText(method))
	}
	params, _ := jsontest.Lookup(env, "params")
	checkObject(t, &m.Params, params)
	result, _ := jsontest.Lookup(env, "result")
	checkObject(t, &m.Result.Object, result)
	if wireErr, _ := jsontest.Lookup(env, "error"); !bytes.Equal(m.Error, wireErr) {
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
	top := jsontest.Pairs(t, raw)
	inside := map[Field][]jsontest.Pair{FieldNone: top}
	for _, parent := range []Field{FieldMeta, FieldRef} {
		v, ok := jsontest.Lookup(top, parent.Key())
		if ok && v[0] == '{' {
			inside[parent] = jsontest.Pairs(t, v)
		}
	}
	for f := FieldName; f < endOfFields; f++ {
		want, has := jsontest.Lookup(inside[parentOf(f)], f.Key())
		if got := o.Raw(f); !bytes.Equal(got, want) || o.Has(f) != has {
			t.Fatalf("%s of %q: %q (present %v), want %q (%v)", f.Key(), raw, got, o.Has(f), want, has)
		}
		text, ok := o.Text(f)
		isText := has && want[0] == '"' && !jsontest.HasHalf(want)
		if ok != isText || isText && text != jsontest.PlainText(want) {
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
	for _, text := range []string{jsontest.ModernCall, jsontest.DenseResult(500), jsontest.WideResult(300), jsontest.TextResult(300), jsontest.ToolsResult(500)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkAgainstOracle(t, data) })
}
