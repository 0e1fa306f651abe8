// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// given returns a Redactor with one of each kind of secret in a configuration.
func given() *redact.Redactor {
	return redact.New(
		http.Header{
			"Authorization": {"Basic " + "YW5uOm9wZW4gc2VzYW1l"}, // ann:open sesame
			"X-Api-Key":     {`sword"fish\1`},
			"Cookie":        {"theme=dark; sid=0123456789"},
			"X-Short":       {"word"},
		},
		[]string{"TOKEN=swordfish", "LONGER=swordfish-1", "PIN=31415926", "MODE=prod", "ROOT=/srv/files", "EMPTY="},
		"https://me:hunter22@x.example/mcp?key=a%2Fkey%20of%20mine", "://",
	)
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"nothing of it, prod, word, dark":           "nothing of it, prod, word, dark",
		"/srv/files/x is no file":                   "/srv/files/x is no file",
		"Authorization: Basic YW5uOm9wZW4gc2VzYW1l": "Authorization: [redacted]",
		"bad YW5uOm9wZW4gc2VzYW1l":                  "bad [redacted]",
		"ann:open sesame, or open sesame alone":     "[redacted], or [redacted] alone",
		`key sword"fish\1.`:                         "key [redacted].",
		"sid 0123456789":                            "sid [redacted]",
		"swordfish-1 before swordfish":              "[redacted] before [redacted]",
		"hunter22, a/key of mine, a%2Fkey+of+mine":  "[redacted], [redacted], [redacted]",
	} {
		if got := given().Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if got := (*redact.Redactor)(nil).Text(text); got != text {
			t.Errorf("without secrets %q becomes %q", text, got)
		}
	}
	if r := redact.New(http.Header{"X": {"short"}}, []string{"A=b", "C"}); r != nil {
		t.Errorf("of nothing that is a secret: %v", r)
	}
}

// Programs print a secret with escapes, and one of several lines line by line.
func TestForms(t *testing.T) {
	key := "-----BEGIN KEY-----\r\n  MIIBVQIBADANBgkq\n\nshort\n-----END KEY-----\n"
	r := redact.New(nil, []string{"KEY=" + key, `TOKEN=sword"fish\1`}).With("tab\there!")
	for text, want := range map[string]string{
		key:                          "[redacted]",
		"line MIIBVQIBADANBgkq":      "line [redacted]",
		"short is an ordinary word":  "short is an ordinary word",
		`{"token":"sword\"fish\\1"}`: `{"token":"[redacted]"}`,
		`{'token': 'sword"fish\\1'}`: `{'token': '[redacted]'}`,
		`{"a":"tab\there!"}`:         `{"a":"[redacted]"}`,
		`'-----BEGIN KEY-----\r\n  MIIBVQIBADANBgkq\n\nshort\n-----END KEY-----\n'`: `'[redacted]'`,
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got, want := r.CutText("cut MIIBVQIBA"), "cut [redacted]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A text may end within a secret; its beginning is removed too.
func TestCutText(t *testing.T) {
	for text, want := range map[string]string{
		"key swordf": "key [redacted]", "key swor": "key [redacted]", "key swo": "key swo",
		"swordfish": "[redacted]", "swordfish-": "[redacted]-", "": "",
	} {
		if got := given().CutText(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := (*redact.Redactor)(nil).CutText("key swordf"); got != "key swordf" {
		t.Errorf("without secrets: %q", got)
	}
}

// A secret is found however JSON spells it, and text without one is unmodified.
func TestJSON(t *testing.T) {
	for raw, want := range map[string]string{
		`{ "a" : [1.0, "x\u00e9", true,null] }`:      `{ "a" : [1.0, "x\u00e9", true,null] }`,
		`"swordfish"`:                                `"[redacted]"`,
		`{"a":"\u0073wordfish","b" : 1.50}`:          `{"a":"[redacted]","b" : 1.50}`,
		`["a sword\"fish\\1 \n"]`:                    `["a [redacted] \n"]`,
		`{"swordfish":{"a":["\"",["swordfish-1"]]}}`: `{"[redacted]":{"a":["\"",["[redacted]"]]}}`,
		`[31415926,1,{"pin":31415926}]`:              `["[redacted]",1,{"pin":"[redacted]"}]`,
		`131415926.5`:                                `"1[redacted].5"`,
		``:                                           ``,
		`["cut`:                                      `["cut`,
	} {
		if got := string(given().JSON([]byte(raw))); got != want {
			t.Errorf("%s becomes %s, want %s", raw, got, want)
		}
		if got := string((*redact.Redactor)(nil).JSON([]byte(raw))); got != raw {
			t.Errorf("without secrets %s becomes %s", raw, got)
		}
	}
}

// For any text, the result is JSON without the secret, and the same text if it had
// none.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"swordfish":["31415926",31415926,"\u0073wordfish-1"]}`, `[-1.5e+9,"\\\"",{}]`, `"sword\"fish\\1"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		clean := given().JSON(raw)
		if !json.Valid(clean) {
			t.Errorf("%s becomes %s", raw, clean)
		}
		if again := given().JSON(clean); !bytes.Equal(again, clean) {
			t.Errorf("of %s remains %s", raw, clean)
		}
	})
}

// All values in a record are redacted, of every kind; the backend and the attributes of
// the logger are kept.
func TestHandler(t *testing.T) {
	var text strings.Builder
	r := given()
	log := slog.New(redact.Around(slog.NewTextHandler(&text, nil), func() *redact.Redactor { return r })).
		With(slog.String("session", "swordfish")).WithGroup("g")
	log.Debug("not wanted")
	log.Info("said", slog.String("backend", "swordfish"), slog.Any("error", errors.New("no swordfish")), slog.Int("n", 31415926),
		slog.Group("in", slog.String("a", "31415926"), slog.Any("list", []string{"swordfish-1"})), slog.Any("other", []string{"b"}))
	r = nil
	log.Info("said", slog.String("a", "swordfish"))
	want := []string{
		`level=INFO msg=said session=swordfish g.backend=swordfish g.error="no [redacted]" g.n=31415926 g.in.a=[redacted] g.in.list=[[redacted]] g.other=[b]`,
		`level=INFO msg=said session=swordfish g.a=swordfish`,
	}
	i := 0
	for line := range strings.Lines(text.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		if i >= len(want) || line != want[i] {
			t.Errorf("line %d is %s", i, line)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d lines, want %d", i, len(want))
	}
}

// Further texts are removed in addition, and the Redactor before them does not change.
func TestWith(t *testing.T) {
	t.Parallel()
	base := redact.Of("base-secret")
	both := base.With("more-secret", "short")
	for _, tt := range []struct {
		r    *redact.Redactor
		want string
	}{
		{nil, "base-secret more-secret short"},
		{base, "[redacted] more-secret short"},
		{both, "[redacted] [redacted] short"},
		{base.With(), "[redacted] more-secret short"},
		{(*redact.Redactor)(nil).With("more-secret"), "base-secret [redacted] short"},
	} {
		if got := tt.r.Text("base-secret more-secret short"); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
