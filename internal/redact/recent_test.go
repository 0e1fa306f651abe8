// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// Secrets that were added later are removed as those of a header are, together with the others.
func TestRecent(t *testing.T) {
	t.Parallel()
	var recent redact.Recent
	r := redact.Of("base-secret").And(&recent)
	if got, want := r.Text("base-secret swordfish-1"), "[redacted] swordfish-1"; got != want {
		t.Errorf("before: %q, want %q", got, want)
	}
	recent.AddHeader("Authorization", "Bearer swordfish-1")
	recent.AddHeader("Authorization", "Bearer swordfish-11")
	recent.AddHeader("X-Api-Key", `quo"ted-key`)
	recent.AddHeader("X-Short", "word")
	for text, want := range map[string]string{
		"base-secret swordfish-1":         "[redacted] [redacted]",
		"Bearer swordfish-1, swordfish-1": "[redacted], [redacted]",
		"swordfish-11swordfish-1 word":    "[redacted][redacted] word",
		"swordfish- swordfis":             "swordfish- swordfis",
		`{"k":"quo\"ted-key"}`:            `{"k":"[redacted]"}`,
		"":                                "",
		"short":                           "short",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got, want := r.CutText("cut swordfi"), "cut [redacted]"; got != want {
		t.Errorf("cut: %q, want %q", got, want)
	}
	if got, want := string(r.JSON([]byte(`{"a":"\u0073wordfish-1"}`))), `{"a":"[redacted]"}`; got != want {
		t.Errorf("JSON: %s, want %s", got, want)
	}
	alone := (*redact.Redactor)(nil).And(&recent)
	if got := alone.Text("swordfish-1 base-secret"); got != "[redacted] base-secret" {
		t.Errorf("alone: %q", got)
	}
	if got := r.With("more-secret").Text("more-secret swordfish-1"); got != "[redacted] [redacted]" {
		t.Errorf("with more: %q", got)
	}
	if r := redact.Of("base-secret"); r.And(nil) != r {
		t.Error("And(nil) is another Redactor")
	}
}

// The newest are kept, and their number is bounded.
func TestRecentIsBounded(t *testing.T) {
	t.Parallel()
	var recent redact.Recent
	r := (*redact.Redactor)(nil).And(&recent)
	token := func(i int) string { return fmt.Sprintf("token-%08d", i) }
	for i := range 3 * redact.MaxRecent {
		recent.AddHeader("X-Token", token(i))
		recent.AddHeader("X-Token", token(3*redact.MaxRecent-1))
	}
	for i, want := range map[int]bool{0: false, redact.MaxRecent: false, 3*redact.MaxRecent - 100: true, 3*redact.MaxRecent - 1: true} {
		if got := !strings.Contains(r.Text("a "+token(i)+" b"), token(i)); got != want {
			t.Errorf("token %d is removed: %v, want %v", i, got, want)
		}
	}
}

// The older half is searched even if the newer one has no secret yet.
func TestRecentAfterAShortValue(t *testing.T) {
	t.Parallel()
	var recent redact.Recent
	r := (*redact.Redactor)(nil).And(&recent)
	for i := range redact.MaxRecent / 2 {
		recent.AddHeader("X-Token", fmt.Sprintf("token-%08d", i))
	}
	recent.AddHeader("X-Short", "word")
	if got := r.Text("a token-00000007 b"); got != "a [redacted] b" {
		t.Errorf("after a value that is too short to be a secret: %q", got)
	}
}

// Of several secrets of which a text ends with a beginning, the longest beginning is removed.
func TestCutTextInSeveralSecrets(t *testing.T) {
	t.Parallel()
	var recent redact.Recent
	recent.AddHeader("X-Token", "0123456789zzzz")
	for name, r := range map[string]*redact.Redactor{
		"of one Redactor": redact.Of("6789 is where this long one begins", "0123456789zzzz"),
		"recent":          redact.Of("6789 is where this long one begins").And(&recent),
	} {
		if got := r.CutText("it is 0123456789"); got != "it is [redacted]" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
