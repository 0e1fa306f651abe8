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
func TestCaseVariantFolds(t *testing.T) {
	for _, l := range []Level{LevelEnvelope, LevelParams, LevelRef} {
		first, behind := l.fields()
		check := func(name string) {
			want := Field(FieldNone)
			for f := first; f < behind; f++ {
				if want == FieldNone && strings.EqualFold(name, f.Key()) {
					want = f
				}
			}
			if got := l.caseVariant([]byte(name)); got != want {
				t.Errorf("level %d, %q: a variant of %q, want %q", l, name, got.Key(), want.Key())
			}
		}
		for f := first; f < behind; f++ {
			word := f.Key()
			for i := range len(word) {
				// Every character that folds to this one, in its place.
				for r := unicode.SimpleFold(rune(word[i])); r != rune(word[i]); r = unicode.SimpleFold(r) {
					check(word[:i] + string(r) + word[i+1:])
				}
				for _, r := range "\x00!é\u0131\u0130\u212b\u2126\U00010400" {
					check(word[:i] + string(r) + word[i+1:])
				}
			}
			for _, name := range []string{"", word[:len(word)-1], word + "x", word + "\u017f", "\xc5", "\xe2\x84"} {
				check(name)
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
