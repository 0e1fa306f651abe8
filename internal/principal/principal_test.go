// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package principal

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestName(t *testing.T) {
	claims := map[string]any{
		"sub": "8f3a", "number": json.Number("12345678901"), "large": json.Number("1e400"), "fraction": json.Number("0.5"),
		"beyond": json.Number("12345678901234567891"), "rounded": json.Number("123456789012345678901"), "float": json.Number("9007199254740993.0"),
		"empty": "", "line": "a\nb", "nothing": nil, "groups": []any{"staff", "sre"}, "realm": map[string]any{"user": "ann", "id": json.Number("7")},
		"long": strings.Repeat("x", MaxName+1), "longest": strings.Repeat("x", MaxName), "bad": "a\xff",
		"https://example.com/user": "bob", "spoof": "a\u202eb",
	}
	for _, tt := range []struct {
		text, want string
		err        error
	}{
		{`claims.sub`, "8f3a", nil},
		{`claims["https://example.com/user"]`, "bob", nil},
		{`claims.realm.user`, "ann", nil},
		{`claims.groups[1] + "/" + claims.sub`, "sre/8f3a", nil},
		{`string(claims.number)`, "12345678901", nil},
		{`string(claims.realm.id)`, "7", nil},
		{`string(claims.fraction)`, "0.5", nil},
		{`has(claims.azp) ? claims.azp : claims.sub`, "8f3a", nil},
		{`claims.longest`, strings.Repeat("x", MaxName), nil},
		{`claims.number`, "", errNoString},
		{`claims.nothing`, "", errNoString},
		{`claims.groups`, "", errNoString},
		{`claims.empty`, "", ErrEmpty},
		{`claims.line`, "", errUnprinted},
		{`claims.bad`, "", errUnprinted},
		{`claims.spoof`, "", errUnprinted},
		{`claims.long`, "", errTooLong},
		{`claims.absent`, "", errFailed},
		{`claims.sub.x`, "", errFailed},
		{`string(claims.large)`, "", errFailed},
		{`string(claims.beyond)`, "12345678901234567891", nil},
		{`string(claims.rounded)`, "", errFailed}, // others would have the same name
		{`string(claims.float)`, "", errFailed},
	} {
		e, err := Compile("claims", tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got, err := e.Name(claims); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %q, %v; want %q, %v", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for text, want := range map[string]string{
		`claims.`:                        "column",
		`claim.sub`:                      "undeclared reference to 'claim'",
		`1`:                              "type int",
		`claims.sub == "x"`:              "type bool",
		strings.Repeat("claims.a+", 900): "size",
	} {
		_, err := Compile("claims", text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20s: got %v, want %q in one line", text, err, want)
		}
	}
}

// identity attack 15: an expression that takes too long is stopped, and results in no name.
func TestCostIsBounded(t *testing.T) {
	e, err := Compile("claims", `claims.l.map(a, claims.l.map(b, claims.l.map(c, a + b + c))).size() > 0 ? "x" : "y"`)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, 1000)
	for i := range list {
		list[i] = json.Number("1")
	}
	if got, err := e.Name(map[string]any{"l": list}); !errors.Is(err, errFailed) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestNameConcurrently(t *testing.T) {
	e, err := Compile("claims", `claims.sub`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup // waited for below
	for _, sub := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			for range 200 {
				if got, err := e.Name(map[string]any{"sub": sub}); got != sub || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, sub)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkName(b *testing.B) {
	e, err := Compile("claims", `claims.sub`)
	if err != nil {
		b.Fatal(err)
	}
	claims := map[string]any{"sub": "8f3a"}
	for b.Loop() {
		if _, err := e.Name(claims); err != nil {
			b.Fatal(err)
		}
	}
}
