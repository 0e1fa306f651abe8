// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "slices"

// Version is a protocol revision as it appears on the wire, such as "2025-11-25". The
// zero value is not a revision. Revisions are dates, so they can be compared as
// strings.
type Version string

// The revisions of the specification that Signalbox supports.
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

// Era is the way in which two peers know each other: through a session opened by a
// handshake (legacy), or through the metadata of each request (modern).
type Era uint8

// The two eras. EraUnknown, the zero value, is for a revision unknown to this package
// and for a server that has not been probed yet.
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

// Era returns the era of a known revision, and EraUnknown for any other: nothing can be
// concluded from a later date.
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

// LegacyVersions returns the known revisions with initialize, newest first. The caller
// owns the slice.
func LegacyVersions() []Version {
	return []Version{V20251125, V20250618, V20250326, V20241105}
}

// ModernVersions returns the known revisions without sessions, newest first. The caller
// owns the slice.
func ModernVersions() []Version {
	return []Version{V20260728}
}
