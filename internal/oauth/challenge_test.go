// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// RFC 9110, section 11.6.1, and its example; RFC 6750, section 3; RFC 9728, section 5.1.
func TestParseChallenges(t *testing.T) {
	type c = oauth.Challenge
	type p = map[string]string
	tests := map[string]struct {
		field string
		want  []c
	}{
		"nothing":         {"", nil},
		"separators only": {" , ,\t,", nil},
		"scheme alone":    {"Negotiate", []c{{Scheme: "negotiate"}}},
		"schemes alone":   {"Negotiate, Basic", []c{{Scheme: "negotiate"}, {Scheme: "basic"}}},
		"the RFC's example": {`Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\""`, []c{
			{Scheme: "basic", Params: p{"realm": "simple"}},
			{Scheme: "newauth", Params: p{"realm": "apps", "type": "1", "title": `Login to "apps"`}},
		}},
		"token68":                 {"Negotiate YWJj==, Bearer", []c{{Scheme: "negotiate", Token68: "YWJj=="}, {Scheme: "bearer"}}},
		"token68 or a parameter":  {"a b=", []c{{Scheme: "a", Token68: "b="}}},
		"a parameter":             {"a b=c", []c{{Scheme: "a", Params: p{"b": "c"}}}},
		"spaces around equals":    {"a b = \"c\"", []c{{Scheme: "a", Params: p{"b": "c"}}}},
		"names in any case":       {`BEARER ReSource_Metadata="u"`, []c{{Scheme: "bearer", Params: p{"resource_metadata": "u"}}}},
		"commas in quotes":        {`a b="c, d=e, Basic", f=g`, []c{{Scheme: "a", Params: p{"b": "c, d=e, Basic", "f": "g"}}}},
		"an empty quoted string":  {`a b=""`, []c{{Scheme: "a", Params: p{"b": ""}}}},
		"empty elements":          {`, a b=c,, ,d=e ,, f`, []c{{Scheme: "a", Params: p{"b": "c", "d": "e"}}, {Scheme: "f"}}},
		"many spaces":             {"Bearer   a=b  ,   c=\"d\"  ", []c{{Scheme: "bearer", Params: p{"a": "b", "c": "d"}}}},
		"escaped backslash":       {`a b="c\\"`, []c{{Scheme: "a", Params: p{"b": `c\`}}}},
		"text beyond ASCII":       {`a b="é"`, []c{{Scheme: "a", Params: p{"b": "é"}}}},
		"Bearer after Basic":      {`Basic realm="x", Bearer scope="a b"`, []c{{Scheme: "basic", Params: p{"realm": "x"}}, {Scheme: "bearer", Params: p{"scope": "a b"}}}},
		"a scheme as a parameter": {`a Bearer=c, Bearer d=e`, []c{{Scheme: "a", Params: p{"bearer": "c"}}, {Scheme: "bearer", Params: p{"d": "e"}}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := oauth.ParseChallenges(tt.field)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseChallengesErrors(t *testing.T) {
	for name, field := range map[string]string{
		"no scheme":              `="a"`,
		"a quote first":          `"a"`,
		"no comma":               `Bearer a="b" c="d"`,
		"no value":               `Bearer a=, b=c`,
		"not closed":             `Bearer a="b`,
		"closed by an escape":    `Bearer a="b\"`,
		"twice":                  `Bearer scope="a", SCOPE="b"`,
		"a token beyond":         `Bearer a=é`,
		"a control byte":         "Bearer a=\"\x00\"",
		"a line break":           "Bearer a=\"b\r\nc\"",
		"text after the scheme":  `Bearer "a"`,
		"two words":              `Bearer a b`,
		"a parameter and a word": `Bearer a=b c`,
		"too long":               "Bearer a=" + strings.Repeat("b", 16<<10),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := oauth.ParseChallenges(field); err == nil {
				t.Errorf("ParseChallenges = %+v, want an error", got)
			}
		})
	}
}

// I6: the challenge of a backend, in one of several fields and among others.
func TestBearerChallenge(t *testing.T) {
	tests := map[string]struct {
		fields []string
		want   *oauth.Bearer
	}{
		"none":         {nil, nil},
		"other scheme": {[]string{`Basic realm="Bearer"`}, nil},
		"alone":        {[]string{"Bearer"}, &oauth.Bearer{}},
		"all": {[]string{`Bearer error="insufficient_scope", error_description="d", scope="a b", resource_metadata="https://h/x"`},
			&oauth.Bearer{ResourceMetadata: "https://h/x", Scopes: []string{"a", "b"}, Error: oauth.ErrorInsufficientScope, ErrorDescription: "d"}},
		"a second field":     {[]string{`Basic realm="r"`, `Bearer scope="a"`}, &oauth.Bearer{Scopes: []string{"a"}}},
		"a field is invalid": {[]string{`Bearer scope="a`, `Bearer scope="b"`}, &oauth.Bearer{Scopes: []string{"b"}}},
		"the one that names metadata": {[]string{`Bearer realm="r", DPoP algs="ES256"`, `Bearer resource_metadata="u"`},
			&oauth.Bearer{ResourceMetadata: "u"}},
		"the first of two that do": {[]string{`Bearer resource_metadata="u", Bearer resource_metadata="v"`}, &oauth.Bearer{ResourceMetadata: "u"}},
		"an empty scope":           {[]string{`Bearer scope=""`}, &oauth.Bearer{Scopes: []string{}}},
		"more than enough fields":  {append(make([]string, 16), "Bearer"), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := oauth.BearerChallenge(http.Header{"Www-Authenticate": tt.fields})
			if ok != (tt.want != nil) {
				t.Fatalf("found = %v", ok)
			}
			if !ok {
				return
			}
			if diff := cmp.Diff(*tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// appendChallenge writes a challenge as a peer could.
func appendChallenge(b *strings.Builder, c oauth.Challenge) {
	if b.Len() > 0 {
		b.WriteString(", ")
	}
	b.WriteString(c.Scheme)
	if c.Token68 != "" {
		b.WriteString(" " + c.Token68)
	}
	separator := " "
	for name, value := range c.Params {
		b.WriteString(separator + name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`)
		separator = ", "
	}
}

// What parses means the same when it is written again, and a parameter comes from the text.
func FuzzChallenges(f *testing.F) {
	for _, seed := range []string{
		`Bearer resource_metadata="https://h/.well-known/oauth-protected-resource", scope="a b"`,
		`Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\""`,
		`Negotiate YWJj==, Bearer`, `a b = "c\\", , d`, `Bearer error=invalid_token`, `a b=`, "é", `a "`, `a b="c" d`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, field string) {
		challenges, err := oauth.ParseChallenges(field)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, c := range challenges {
			if c.Scheme != strings.ToLower(c.Scheme) || c.Token68 != "" && c.Params != nil {
				t.Errorf("not normal: %+v", c)
			}
			appendChallenge(&again, c)
		}
		if again.Len() > 16<<10 {
			return // the form is longer than the bound
		}
		got, err := oauth.ParseChallenges(again.String())
		if err != nil {
			t.Fatalf("%q, from %q: %v", again.String(), field, err)
		}
		if diff := cmp.Diff(challenges, got); diff != "" {
			t.Errorf("%q: %s", field, diff)
		}
	})
}
