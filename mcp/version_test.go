// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"cmp"
	"slices"
	"testing"
)

func TestVersionEra(t *testing.T) {
	for v, want := range map[Version]Era{
		"2024-11-05": EraLegacy, "2025-03-26": EraLegacy, "2025-06-18": EraLegacy, "2025-11-25": EraLegacy,
		"2026-07-28": EraModern,
		"":           EraUnknown, "2024-10-07": EraUnknown, "2026-07-29": EraUnknown, "DRAFT-2026": EraUnknown, "2025-11-25 ": EraUnknown,
	} {
		if got := v.Era(); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
	for era, want := range map[Era]string{EraLegacy: "legacy", EraModern: "modern", EraUnknown: "unknown", 9: "unknown"} {
		if era.String() != want {
			t.Errorf("%d: %q, want %q", era, era, want)
		}
	}
}

func TestVersionLists(t *testing.T) {
	newestFirst := func(a, b Version) int { return cmp.Compare(b, a) }
	for _, list := range [][]Version{LegacyVersions(), ModernVersions()} {
		if !slices.IsSortedFunc(list, newestFirst) {
			t.Errorf("%v is not newest first", list)
		}
	}
	if LegacyVersions()[0] != LatestLegacy || ModernVersions()[0] != LatestModern {
		t.Error("the latest is not the first")
	}
	LegacyVersions()[0] = "mine"
	if LegacyVersions()[0] != LatestLegacy {
		t.Error("the caller's change is seen by others")
	}
}
