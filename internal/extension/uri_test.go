// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"strings"
	"testing"
)

func TestOuterURI(t *testing.T) {
	long := strings.Repeat("x/", 1<<16)
	for _, tt := range []struct{ label, uri, want string }{
		{"b", "ui://page", "ui://b/page"},
		{"b", "ui://page/view.html", "ui://b/page/view.html"},
		{"b", "skill://pdf/SKILL.md", "skill://b/pdf/SKILL.md"},
		{"b", "ui://", "ui://b/"},
		{"b", "ui:///page", "ui://b//page"},
		{"b", "ui:////page", "ui://b///page"},
		{"b", "ui://?q=a/b", "ui://b/?q=a/b"},
		{"b", "ui://a%2Fb#part", "ui://b/a%2Fb#part"},
		{"b", "UI://Page", "UI://b/Page"},
		{"b", "Skill:", "Skill:b/"},
		{"b", "ui:page", "ui:b/page"},
		{"b", "ui:/page", "ui:b//page"},
		{"b", "ui://{name}/x", "ui://b/{name}/x"},
		{"b", "ui://" + long, "ui://b/" + long},
		{"", "ui://page", "ui://page"},
		{"b", "file:///page", "file:///page"},
		{"b", "uix://page", "uix://page"},
		{"b", "skills://page", "skills://page"},
		{"b", "ui", "ui"},
		{"b", "", ""},
	} {
		if got := OuterURI(tt.label, tt.uri); got != tt.want {
			t.Errorf("OuterURI(%q, %.40q) = %.40q, want %.40q", tt.label, tt.uri, got, tt.want)
		}
	}
}

func TestInnerURI(t *testing.T) {
	for _, uri := range []string{"", "ui", "ui:", "ui:/", "ui://", "ui://b", "ui:///b/x", "ui:b", "ui:b///x", "skill:b", "file://b/x", "uix://b/x"} {
		if label, inner, ok := InnerURI(uri); ok {
			t.Errorf("InnerURI(%q) = %q, %q", uri, label, inner)
		}
	}
}

// C9: the outer URI is a function of label and URI that can be reversed.
func FuzzOuterURI(f *testing.F) {
	for _, uri := range []string{"ui://page", "ui:", "ui://", "ui:///", "skill:/x", "SKILL://a//b?q#f", "ui:b///x", "ui://%62/x", "file:///x"} {
		f.Add("b", uri)
	}
	f.Fuzz(func(t *testing.T, label, uri string) {
		if label == "" || strings.Contains(label, "/") {
			return
		}
		outer := OuterURI(label, uri)
		if !IsName(uri) {
			if outer != uri {
				t.Errorf("OuterURI(%q, %q) = %q, which is no name", label, uri, outer)
			}
			return
		}
		if l, inner, ok := InnerURI(outer); l != label || inner != uri || !ok {
			t.Errorf("InnerURI(OuterURI(%q, %q)) = %q, %q, %t", label, uri, l, inner, ok)
		}
		if !IsName(outer) {
			t.Errorf("OuterURI(%q, %q) = %q has another scheme", label, uri, outer)
		}
	})
}

// C9: a URI is the outer URI of at most one label and URI.
func FuzzInnerURI(f *testing.F) {
	for _, uri := range []string{"ui://b/page", "ui:b/", "ui:b//x", "ui:b///x", "ui:///x", "ui://", "skill://b//", "UI://B/?q", "file://b/x"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		label, inner, ok := InnerURI(uri)
		switch {
		case !ok:
		case label == "" || strings.Contains(label, "/") || !IsName(inner):
			t.Errorf("InnerURI(%q) = %q, %q", uri, label, inner)
		case OuterURI(label, inner) != uri:
			t.Errorf("OuterURI(InnerURI(%q)) = %q", uri, OuterURI(label, inner))
		}
	})
}
