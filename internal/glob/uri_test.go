// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package glob

import "testing"

func TestPlainURI(t *testing.T) {
	for uri, want := range map[string]string{
		"":                            "",
		"no-uri":                      "no-uri",
		"note:a":                      "note:a",
		"file:///pub/a":               "file:///pub/a",
		"FILE:///pub/A":               "file:///pub/A",
		"file:///%73ecret/b":          "file:///secret/b",
		"file:///secret%2Fb":          "file:///secret/b",
		"file:///secret/b#part":       "file:///secret/b",
		"file:///pub/../secret/b":     "file:///secret/b",
		"file:///pub/%2e%2E/secret/b": "file:///secret/b",
		"file:///pub%2f..%2fsecret/b": "file:///secret/b",
		"file:///./secret/./b":        "file:///secret/b",
		"file:///../../secret":        "file:///secret",
		"file:///pub/..":              "file:///",
		"file:///pub/.":               "file:///pub/",
		"file:///pub/":                "file:///pub/",
		"file:///a..b/.c":             "file:///a..b/.c",
		"file:///a%zz%4":              "file:///a%zz%4",
		"file:///a%\x14\x11":          "file:///a%\x14\x11",
		"file:///a%+1":                "file:///a%+1",
		"db://Host:80/t?q=%41#x":      "db://host:80/t?q=A",
		"db://host?a/../b":            "db://host?a/../b",
		"web:///https://x.org/a":      "web:///https://x.org/a",
		"note:x/../y":                 "note:y",
		"note:../y":                   "note:y",
		"file:///pub//secret///b":     "file:///pub/secret/b",
		"file:///pub/%2f/secret/b":    "file:///pub/secret/b",
		"file:///pub\\..%5Csecret/b":  "file:///secret/b",
		"file:///pub//../secret/b":    "file:///secret/b",
		"web:///a\\..//b":             "web:///a\\..//b",
	} {
		if got := PlainURI(uri); got != want {
			t.Errorf("%q is %q, want %q", uri, got, want)
		}
		if again := PlainURI(PlainURI(uri)); want != "file:///a%zz%4" && again != want {
			t.Errorf("%q is %q after a second time", uri, again)
		}
	}
}

// A segment ".." after an empty one removes that for some readers, and the one before for others. After
// "?" or "#" it is one only for readers that take all for a path.
func TestIsAmbiguous(t *testing.T) {
	for uri, want := range map[string]bool{
		"":                             false,
		"no-uri//..":                   false,
		"file:///pub/../secret":        false,
		"file:///pub//../secret":       true,
		"file:///pub/%2f%2E%2e/secret": true,
		"file:///pub//./../secret":     true,
		"file:///pub//a/../secret":     false,
		"file:///pub//a/../../secret":  true,
		"file:///pub/\\..\\secret":     true,
		"file:////../secret":           true,
		"file:///../secret":            false,
		"FILE://host//../secret":       true,
		"web:///https://x.org/a/../b":  false,
		"web:///https://../b":          true,
		"db://host/a?q=../x#..":        false,
		"file:///pub/a?/../secret":     true,
		"file:///pub/a?/%2e%2e/secret": true,
		"file:///pub/a?\\..\\secret":   true,
		"db://host/a#b/..":             true,
	} {
		if got := IsAmbiguous(uri); got != want {
			t.Errorf("%q: %t, want %t", uri, got, want)
		}
	}
}
