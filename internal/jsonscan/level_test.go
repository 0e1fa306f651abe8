// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

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
	for f := Field(FieldName); f < endFields; f++ {
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
		l    Level
		name string
		want Field
	}{
		{LevelEnvelope, "ID", FieldID},
		{LevelEnvelope, "jsonRPC", FieldJSONRPC},
		{LevelEnvelope, "reſult", FieldResult},
		{LevelEnvelope, "Name", FieldNone},
		{LevelEnvelope, "ids", FieldNone},
		{LevelParams, "Name", FieldName},
		{LevelParams, "URI", FieldURI},
		{LevelParams, "taskID", FieldTaskID},
		{LevelParams, "_META", FieldMeta},
		{LevelParams, "METHOD", FieldNone},
		{LevelParams, "Type", FieldNone},
		{LevelRef, "Type", FieldRefType},
		{LevelRef, "cursoR", FieldNone},
		{LevelResult, "Name", FieldNone},
		{LevelResultRef, "Name", FieldNone},
		{LevelError, "Code", FieldNone},
		{LevelMeta, "ProgressToken", FieldNone},
	} {
		if got := tt.l.caseVariant([]byte(tt.name)); got != tt.want {
			t.Errorf("level %d, %q: a variant of %q, want %q", tt.l, tt.name, got.Key(), tt.want.Key())
		}
	}
}
