// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"testing"
	"unicode"
)

// J16. Names in another letter case are recognized by the folding of case-insensitive
// readers: that of strings.EqualFold and encoding/json.
//
// J16- own: "A name that another parser could read as a member of the envelope is not
// ignored."
func TestFoldsTo(t *testing.T) {
	for f := FieldName; f < endFields; f++ {
		word := f.Key()
		for i := range len(word) {
			// Every character that folds to this one, in its place.
			for r := unicode.SimpleFold(rune(word[i])); r != rune(word[i]); r = unicode.SimpleFold(r) {
				name := word[:i] + string(r) + word[i+1:]
				if !foldsTo([]byte(name), word) {
					t.Errorf("%q does not fold to %q", name, word)
				}
			}
			for _, r := range "\x00!é\u0131\u0130\u212b\u2126\U00010400" {
				name := word[:i] + string(r) + word[i+1:]
				if foldsTo([]byte(name), word) != strings.EqualFold(name, word) {
					t.Errorf("%q folds to %q", name, word)
				}
			}
		}
		for _, name := range []string{"", word[:max(len(word)-1, 0)], word + "x", word + "\u017f", "\xc5", "\xe2\x84"} {
			if word != "" && foldsTo([]byte(name), word) {
				t.Errorf("%q folds to %q", name, word)
			}
		}
	}
}

// Variants are rejected at the levels that route a message, and nowhere else.
func TestCaseVariant(t *testing.T) {
	for _, tt := range []struct {
		l    level
		name string
		want Field
	}{
		{levelEnvelope, "ID", fieldID},
		{levelEnvelope, "jsonRPC", fieldJSONRPC},
		{levelEnvelope, "reſult", fieldResult},
		{levelEnvelope, "Name", FieldNone},
		{levelEnvelope, "ids", FieldNone},
		{levelParams, "Name", FieldName},
		{levelParams, "URI", FieldURI},
		{levelParams, "taskID", FieldTaskID},
		{levelParams, "_META", FieldMeta},
		{levelParams, "METHOD", FieldNone},
		{levelParams, "Type", FieldNone},
		{levelRef, "Type", FieldRefType},
		{levelRef, "cursoR", FieldNone},
		{levelResult, "Name", FieldNone},
		{levelResultRef, "Name", FieldNone},
		{levelError, "Code", FieldNone},
		{levelMeta, "ProgressToken", FieldNone},
	} {
		if got := tt.l.caseVariant([]byte(tt.name)); got != tt.want {
			t.Errorf("level %d, %q: a variant of %q, want %q", tt.l, tt.name, got.Key(), tt.want.Key())
		}
	}
}
