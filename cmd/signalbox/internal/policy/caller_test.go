// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadCaller(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{}`, "<nil>"},
		{`{principal: ci, via: token}`, `ci token "" "" [] map[]`},
		{`{principal: "corp:1", claims: {sub: "1", iss: "https://id", scope: "b a", n: 3}}`, `corp:1 jwt "https://id" "1" [a b] map[iss:https://id n:3 scope:b a sub:1]`},
		{`{claims: {scp: [b, a]}, subject: "2"}`, ` jwt "" "2" [a b] map[scp:[b a]]`},
		{`{scopes: [x], claims: {scope: y}}`, ` jwt "" "" [x] map[scope:y]`},
	} {
		c, err := readCaller("x.yaml", []byte(tc.text))
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		got := "<nil>"
		if id := c.identity(); id != nil {
			got = fmt.Sprintf("%s %s %q %q %v %v", id.Principal, id.Via, id.Issuer, id.Subject, id.Scopes, id.Claims)
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.text, got, tc.want)
		}
	}
	c, err := readCaller("x.json", []byte(`{"era": "legacy", "client": {"name": "a\"b", "version": "1"}}`))
	if p := c.peer(); err != nil || string(p.Info) != `{"name":"a\"b","version":"1"}` || p.Version.Era().String() != "legacy" {
		t.Errorf("a client: %s %v", p.Info, err)
	}
}

func TestMistakesInCases(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`cases: []`, "x.yaml:1:1: there are no cases"},
		{`cases: [{as: {}}]`, "x.yaml:1:9: a case without expectations"},
		{`cases: [{may: a}]`, "x.yaml:1:15: a list is expected, not a string"},
		{`cases: [{may: [{args: {}}]}]`, `x.yaml:1:16: "call" is missing`},
		{`cases: [{may: [{call: a, args: [1]}]}]`, "x.yaml:1:32: arguments are a mapping, not a list"},
		{`cases: [{may: [{call: a, args: {n: .inf}}]}]`, "x.yaml:1:36: this number is not one of JSON"},
		{`cases: [{mayNto: [a]}]`, `x.yaml:1:10: unknown key "mayNto" (did you mean "mayNot"?)`},
		{`cases: [{as: {via: magic}, may: [a]}]`, "x.yaml:1:20: use one of token, jwt"},
		{`cases: [{as: {claims: x}, may: [a]}]`, "x.yaml:1:23: claims are a mapping, not a string"},
		{`cases: [`, "x.yaml:1:"},
	} {
		_, err := readCases("x.yaml", []byte(tc.text))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s:\n got %v\nwant %s", tc.text, err, tc.want)
		}
	}
}
