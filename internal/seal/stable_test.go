// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/seal"
)

// The same name gives the same text in every process with the secret, and any
// difference in the input another text.
func TestSealStable(t *testing.T) {
	secret := bytes.Repeat([]byte("k"), seal.MinKey)
	one, two, other := stableBox(t, secret), stableBox(t, secret), stableBox(t, bytes.Repeat([]byte("o"), seal.MinKey))
	text := one.SealStable("task", []byte("a\x00t1"), "ann")
	if again := two.SealStable("task", []byte("a\x00t1"), "ann"); again != text {
		t.Errorf("the same name is %q and %q", text, again)
	}
	for what, differs := range map[string]string{
		"name":       one.SealStable("task", []byte("a\x00t2"), "ann"),
		"purpose":    one.SealStable("state", []byte("a\x00t1"), "ann"),
		"principal":  one.SealStable("task", []byte("a\x00t1"), "bob"),
		"none bound": one.SealStable("task", []byte("a\x00t1")),
		"secret":     other.SealStable("task", []byte("a\x00t1"), "ann"),
	} {
		if differs[:20] == text[:20] {
			t.Errorf("another %s has a text with the same beginning: %q and %q", what, differs, text)
		}
	}
}

// The texts of SealStable open like those of Seal, for the same purpose and values
// only, and under a secret that has been replaced.
func TestSealStableOpens(t *testing.T) {
	old, young := bytes.Repeat([]byte("k"), seal.MinKey), bytes.Repeat([]byte("n"), seal.MinKey)
	text := stableBox(t, old).SealStable("task", []byte("a\x00t1"), "ann")
	rotated := stableBox(t, young, old)
	if got, err := rotated.Open("task", text, "ann"); err != nil || string(got) != "a\x00t1" {
		t.Errorf("Open = %q, %v", got, err)
	}
	for what, open := range map[string]func() ([]byte, error){
		"purpose":   func() ([]byte, error) { return rotated.Open("state", text, "ann") },
		"principal": func() ([]byte, error) { return rotated.Open("task", text, "bob") },
		"secret":    func() ([]byte, error) { return stableBox(t, young).Open("task", text, "ann") },
		"byte":      func() ([]byte, error) { return rotated.Open("task", text[:len(text)-2]+"AA", "ann") },
	} {
		if got, err := open(); err == nil {
			t.Errorf("it opens with another %s: %q", what, got)
		}
	}
}

func stableBox(t *testing.T, secrets ...[]byte) *seal.Box {
	t.Helper()
	b, err := seal.New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
