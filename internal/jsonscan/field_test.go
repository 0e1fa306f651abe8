// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"strings"
	"testing"
)

// Keys and fields correspond to each other.
func TestFieldKeys(t *testing.T) {
	for f := Field(FieldName); f < endFields; f++ {
		l := LevelParams
		switch {
		case f.parent() == FieldMeta:
			l = LevelMeta
		case f.parent() == FieldRef:
			l = LevelRef
		case f >= FieldCode:
			l = LevelError
		case f >= FieldJSONRPC:
			l = LevelEnvelope
		}
		key := f.Key()
		if l.field([]byte(key)) != f {
			t.Errorf("%q at level %d is field %d, want %d", key, l, l.field([]byte(key)), f)
		}
		for _, other := range []string{key + "x", strings.ToUpper(key) + "_", ""} {
			if got := l.field([]byte(other)); got != FieldNone {
				t.Errorf("%q at level %d is field %d, want none", other, l, got)
			}
		}
	}
	if Field(FieldNone).Key() != "" || Field(200).Key() != "" {
		t.Error("no field has a key")
	}
}

// Text for an error is ASCII, and short.
func TestQuoted(t *testing.T) {
	long := strings.Repeat("\u202e\x1b", 100)
	if text := Quoted([]byte(long)); len(text) > 400 || strings.ContainsAny(text, "\u202e\x1b") {
		t.Errorf("Quoted: %q", text)
	}
}
