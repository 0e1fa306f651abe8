// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsontest reads JSON with an independent library, as the oracle for tests of
// packages jsonscan and mcp, and makes messages for them.
package jsontest

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

// ReplaceHalfPairs replaces each unpaired surrogate by \ufffd, which has the same
// length: the library rejects them, while the scanner forwards them. Outside strings a
// backslash is an error in either case.
func ReplaceHalfPairs(data []byte) []byte {
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
	n, err := strconv.ParseUint(string(b[1:5]), 16, 16)
	return rune(n), err == nil
}

// IsJSON reports whether data is one JSON text, duplicate names allowed.
func IsJSON(data []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(ReplaceHalfPairs(data)), jsontext.AllowDuplicateNames(true))
	if d.SkipValue() != nil {
		return false
	}
	_, err := d.ReadToken()
	return errors.Is(err, io.EOF)
}

// A Pair is one member of an object.
type Pair struct {
	Name  string
	Value []byte
	Half  bool // the name has an unpaired surrogate
}

// Pairs returns the members of a valid object in order.
func Pairs(t testing.TB, object []byte) []Pair {
	t.Helper()
	mended := ReplaceHalfPairs(object)
	d := jsontext.NewDecoder(bytes.NewReader(mended), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	var out []Pair
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
		out = append(out, Pair{
			Name:  text,
			Value: object[end-len(value) : end],
			Half:  !bytes.Equal(mended[from:to], object[from:to]),
		})
	}
	return out
}

// Lookup returns the value of the first member with this name.
func Lookup(members []Pair, name string) ([]byte, bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return nil, false
}

// HasHalf reports whether a string has an unpaired surrogate.
func HasHalf(token []byte) bool { return !bytes.Equal(ReplaceHalfPairs(token), token) }

// PlainText returns the decoded text of a string, and "" for any other value.
func PlainText(token []byte) string {
	b, err := jsontext.AppendUnquote(nil, ReplaceHalfPairs(token))
	if err != nil {
		return ""
	}
	return string(b)
}

// DepthOf returns how deep arrays and objects are nested.
func DepthOf(data []byte) int {
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
