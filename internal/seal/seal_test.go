// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/seal"
)

// secret returns a secret of the minimal length.
func secret(c byte) []byte { return bytes.Repeat([]byte{c}, seal.MinKey) }

func newBox(t testing.TB, secrets ...[]byte) *seal.Box {
	t.Helper()
	b, err := seal.New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Q1+ 2026-07-28 basic/patterns/mrtr: "servers MUST protect its integrity (e.g. HMAC
// or AEAD)"
func TestSealOpen(t *testing.T) {
	tests := map[string]struct {
		plain []byte
		bound []string
	}{
		"text":          {[]byte("state"), []string{"ann", "tools/call"}},
		"nothing":       {nil, nil},
		"any bytes":     {[]byte{0, 255, '\n', '"'}, []string{"\x00", ""}},
		"large":         {bytes.Repeat([]byte("x"), 1<<20), []string{"ann"}},
		"empty binding": {[]byte("state"), []string{""}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, secret(1))
			text := b.Seal("p", tt.plain, tt.bound...)
			got, err := b.Open("p", text, tt.bound...)
			if err != nil || !bytes.Equal(got, tt.plain) {
				t.Errorf("Open = %.40q, %v, want %.40q", got, err, tt.plain)
			}
		})
	}
}

// A text does not open with any difference in its bound values, and the error is always
// the same.
func TestOpenIsBound(t *testing.T) {
	b := newBox(t, secret(1))
	text := b.Seal("state", []byte("plain"), "ann", "tools/call")
	tests := map[string]struct {
		box     *seal.Box
		purpose string
		text    string
		bound   []string
	}{
		"other purpose":     {b, "task", text, []string{"ann", "tools/call"}},
		"other principal":   {b, "state", text, []string{"bob", "tools/call"}},
		"other order":       {b, "state", text, []string{"tools/call", "ann"}},
		"other cut":         {b, "state", text, []string{"annt", "ools/call"}},
		"joined":            {b, "state", text, []string{"anntools/call"}},
		"one value less":    {b, "state", text, []string{"ann"}},
		"one value more":    {b, "state", text, []string{"ann", "tools/call", ""}},
		"purpose and value": {b, "stateann", text, []string{"tools/call"}},
		"other secret":      {newBox(t, secret(2)), "state", text, []string{"ann", "tools/call"}},
		"random secret":     {newBox(t), "state", text, []string{"ann", "tools/call"}},
		"nothing":           {b, "state", "", []string{"ann", "tools/call"}},
		"padding":           {b, "state", text + "=", []string{"ann", "tools/call"}},
		"line break":        {b, "state", text[:8] + "\n" + text[8:], []string{"ann", "tools/call"}},
		"return":            {b, "state", text + "\r", []string{"ann", "tools/call"}},
		"space":             {b, "state", " " + text, []string{"ann", "tools/call"}},
		"twice":             {b, "state", text + text, []string{"ann", "tools/call"}},
		"huge":              {b, "state", strings.Repeat("A", 1<<20), []string{"ann", "tools/call"}},
		"no base64":         {b, "state", "\x00\xff", []string{"ann", "tools/call"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			plain, err := tt.box.Open(tt.purpose, tt.text, tt.bound...)
			if !errors.Is(err, seal.ErrSealed) || plain != nil {
				t.Errorf("Open = %q, %v, want nothing and ErrSealed", plain, err)
			}
		})
	}
}

// No character of a text can be changed, removed, or spelled in another way: each
// sealed text has one spelling.
//
// Q1- 2026-07-28 basic/patterns/mrtr: "MUST reject state that fails verification."
func TestTampering(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := newBox(t, secret(1))
	text := b.Seal("p", []byte("some bytes"), "ann")
	for i := range len(text) {
		for _, c := range alphabet {
			changed := text[:i] + string(c) + text[i+1:]
			if _, err := b.Open("p", changed, "ann"); (err == nil) != (changed == text) {
				t.Errorf("with %q at %d: error %v", c, i, err)
			}
		}
		if _, err := b.Open("p", text[:i], "ann"); err == nil {
			t.Errorf("opens when cut after %d", i)
		}
	}
}

// "the first seals, all open": a secret is replaced without a time at which issued
// texts are invalid.
func TestRotation(t *testing.T) {
	old, next := newBox(t, secret(1)), newBox(t, secret(2), secret(1))
	before := old.Seal("p", []byte("old"))
	if got, err := next.Open("p", before); err != nil || string(got) != "old" {
		t.Errorf("the old text: %q, %v", got, err)
	}
	after := next.Seal("p", []byte("new"))
	if _, err := old.Open("p", after); err == nil {
		t.Error("the second secret has sealed")
	}
	if got, err := newBox(t, secret(2)).Open("p", after); err != nil || string(got) != "new" {
		t.Errorf("at a replica that has the new secret only: %q, %v", got, err)
	}
	if _, err := newBox(t, secret(2)).Open("p", before); err == nil {
		t.Error("opens with a secret that was dropped")
	}
}

func TestSealIsRandom(t *testing.T) {
	b := newBox(t)
	seen := make(map[string]bool)
	for range 1000 {
		text := b.Seal("p", []byte("x"))
		if seen[text] {
			t.Fatal("two texts are the same")
		}
		seen[text] = true
	}
}

func TestShortSecretIsRefused(t *testing.T) {
	for want, secrets := range map[string][][]byte{
		"secret 1 has 0 bytes, fewer than 32":  {{}},
		"secret 1 has 31 bytes, fewer than 32": {secret(1)[1:]},
		"secret 2 has 5 bytes, fewer than 32":  {secret(1), []byte("short")},
	} {
		if _, err := seal.New(secrets...); err == nil || err.Error() != want {
			t.Errorf("New(%d secrets): error %v, want %s", len(secrets), err, want)
		}
	}
}

// The secrets belong to the caller, which may erase them.
func TestSecretsAreNotKept(t *testing.T) {
	own := secret(1)
	b := newBox(t, own)
	text := b.Seal("p", []byte("x"))
	clear(own)
	if _, err := b.Open("p", text); err != nil {
		t.Errorf("after the secret was wiped: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	b := newBox(f, secret(1), secret(2))
	f.Add(b.Seal("p", []byte("x"), "ann"), "ann")
	f.Add("", "")
	f.Add(strings.Repeat("_", 100), "ann")
	f.Fuzz(func(t *testing.T, text, bound string) {
		if plain, err := b.Open("q", text, bound); err == nil {
			t.Errorf("%q opens for another purpose: %q", text, plain)
		}
		sealed := b.Seal("p", []byte(text), bound, text)
		if plain, err := b.Open("p", sealed, bound, text); err != nil || string(plain) != text {
			t.Errorf("Open(Seal(%q)) = %q, %v", text, plain, err)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	box := newBox(b, secret(1))
	text := box.Seal("p", bytes.Repeat([]byte("x"), 100), "ann")
	for b.Loop() {
		if _, err := box.Open("p", text, "ann"); err != nil {
			b.Fatal(err)
		}
	}
}

// A sealed text has one spelling: the unused bits of its last letter are checked, too.
func TestOneSpelling(t *testing.T) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := newBox(t)
	for n := range 3 { // the number of unused bits depends on the length
		text := b.Seal("p", make([]byte, n))
		cut := len(text) - 1
		opened := 0
		for _, last := range letters {
			if _, err := b.Open("p", text[:cut]+string(last)); err == nil {
				opened++
			}
		}
		if opened != 1 {
			t.Errorf("%d bytes: %d spellings open, want 1", n, opened)
		}
	}
}
