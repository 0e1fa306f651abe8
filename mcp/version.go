// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "slices"

// Version is a protocol revision as it stands on the wire, such as
// "2025-11-25". The zero value is no revision. Revisions are dates, so that
// they compare as strings.
type Version string

// The revisions of the specification that Signalbox speaks.
const (
	V20241105 Version = "2024-11-05"
	V20250326 Version = "2025-03-26"
	V20250618 Version = "2025-06-18"
	V20251125 Version = "2025-11-25"
	V20260728 Version = "2026-07-28"
)

// LatestLegacy and LatestModern are the newest revision of each era.
const (
	LatestLegacy = V20251125
	LatestModern = V20260728
)

// Era says how two peers of a revision know each other: by a session that a
// handshake opened, or by what each request says of itself.
type Era uint8

// The two eras. EraUnknown is the zero value: of a revision that this package
// does not know, or of a server that was not asked yet.
const (
	EraUnknown Era = iota
	EraLegacy
	EraModern
)

// String returns "legacy", "modern" or "unknown".
func (e Era) String() string {
	switch e {
	case EraLegacy:
		return "legacy"
	case EraModern:
		return "modern"
	default:
		return "unknown"
	}
}

// Era returns the era of a known revision, and EraUnknown for any other: a later
// date says nothing of what a revision that nobody here has read will be like.
func (v Version) Era() Era {
	switch {
	case slices.Contains(LegacyVersions(), v):
		return EraLegacy
	case slices.Contains(ModernVersions(), v):
		return EraModern
	default:
		return EraUnknown
	}
}

// LegacyVersions returns the known revisions that open with initialize, newest
// first. The caller owns the slice.
func LegacyVersions() []Version {
	return []Version{V20251125, V20250618, V20250326, V20241105}
}

// ModernVersions returns the known revisions without sessions, newest first.
// The caller owns the slice.
func ModernVersions() []Version {
	return []Version{V20260728}
}
