// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPrefixesThatLetNamesMeet checks that a server is rejected if its prefix is a prefix of
// another's, unless its rules exclude the names of the other.
func TestPrefixesThatLetNamesMeet(t *testing.T) {
	const longer = `x.json:1:%d: the prefix %q of %q begins with the prefix %q of %q, which could offer names of it ` +
		`(give one of them another, or add %q to "exclude" of %q)`
	for _, tt := range []struct{ name, servers, want string }{
		{"the defaults", `"a": {"command": "x"}, "a__b": {"command": "x"}`, fmt.Sprintf(longer, 40, "a__b__", "a__b", "a__", "a", "b__*", "a")},
		{"the longer one first", `"a__b": {"command": "x"}, "a": {"command": "x"}`, fmt.Sprintf(longer, 43, "a__b__", "a__b", "a__", "a", "b__*", "a")},
		{"prefixes of their own", `"g": {"command": "x", "prefix": "git_"}, "h": {"command": "x", "prefix": "git_hub_"}`,
			fmt.Sprintf(longer, 90, "git_hub_", "h", "git_", "g", "hub_*", "g")},
		{"three", `"a": {"command": "x"}, "a__b": {"command": "x"}, "a__b__c": {"command": "x"}`,
			fmt.Sprintf(longer, 40, "a__b__", "a__b", "a__", "a", "b__*", "a") + "\n" +
				fmt.Sprintf(longer, 66, "a__b__c__", "a__b__c", "a__", "a", "b__c__*", "a") + "\n" +
				fmt.Sprintf(longer, 66, "a__b__c__", "a__b__c", "a__b__", "a__b", "c__*", "a__b")},
		{"the same", `"g": {"command": "x", "prefix": "p_"}, "h": {"command": "x", "prefix": "p_"}`,
			`x.json:1:88: "g" and "h" have the same prefix "p_" (give one of them another)`},
		{"only names that begin so", `"a": {"command": "x", "include": ["b__*"]}, "a__b": {"command": "x"}`, fmt.Sprintf(longer, 61, "a__b__", "a__b", "a__", "a", "b__*", "a")},

		{"a name and no prefix in common", `"git": {"command": "x"}, "github": {"command": "x"}`, ""},
		{"one is disabled", `"a": {"command": "x", "disabled": true}, "a__b": {"command": "x"}`, ""},
		{"the empty one", `"a": {"command": "x", "prefix": ""}, "a__b": {"command": "x"}`, ""},
		{"excluded", `"a": {"command": "x", "exclude": ["b__*"]}, "a__b": {"command": "x"}`, ""},
		{"excluded by more", `"a": {"command": "x", "exclude": ["b*"]}, "a__b": {"command": "x"}`, ""},
		{"not included", `"a": {"command": "x", "include": ["get", "list_*"]}, "a__b": {"command": "x"}`, ""},
		{"neither includes the other's", `"a": {"command": "x", "include": ["*_get"]}, "a__b": {"command": "x", "include": ["put", "*_set"]}`, ""},
		{"excluded by the other", `"a": {"command": "x", "include": ["*_get"]}, "a__b": {"command": "x", "exclude": ["*_get"]}`,
			fmt.Sprintf(longer, 62, "a__b__", "a__b", "a__", "a", "b__*", "a")}, // b__get remains
	} {
		_, err := Parse("x.json", []byte(`{"mcpServers": {`+tt.servers+`}}`), nil)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// TestPrefixesKeepNamesApart checks with random servers that of two accepted ones none offers
// a name that the other could offer.
func TestPrefixesKeepNamesApart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(letters string, most int) string {
		var b strings.Builder
		for range random.IntN(most + 1) {
			b.WriteByte(letters[random.IntN(len(letters))])
		}
		return b.String()
	}
	names := []string{""}
	for i := 0; len(names[i]) < 5; i++ {
		names = append(names, names[i]+"a", names[i]+"b")
	}
	refused, apart := 0, 0
	for range 3000 {
		server := func(name string) *Backend {
			prefix := "a" + word("ab", 2)
			s := &Backend{Name: name, Prefix: &prefix}
			for range random.IntN(3) {
				s.Include = append(s.Include, word("ab*", 3))
			}
			for range random.IntN(3) {
				s.Exclude = append(s.Exclude, word("ab*", 3))
			}
			return s
		}
		one, two := server("one"), server("two")
		if _, shared := SharedNames(one, two); shared {
			refused++
			continue
		}
		apart++
		taken := make(map[string]bool)
		for _, name := range names {
			if one.Offers(name) {
				taken[*one.Prefix+name] = true
			}
		}
		for _, name := range names {
			if two.Offers(name) && taken[*two.Prefix+name] {
				t.Fatalf("%+v and %+v both offer %s", *one, *two, *two.Prefix+name)
			}
		}
	}
	if refused < 500 || apart < 500 {
		t.Errorf("%d refused and %d not: too few to tell", refused, apart)
	}
}
