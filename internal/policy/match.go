// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// matchTemplate reports whether a pattern matches the URIs of a template (RFC 6570): all of
// them, none of them, or neither is certain.
func matchTemplate(pattern, template string) Value {
	fixed, _, open := strings.Cut(template, "{")
	if !open {
		return valueOf(glob.Match(pattern, template))
	}
	return matchBegin(pattern, fixed)
}

// matchBegin is matchTemplate for all names that begin with a text.
func matchBegin(pattern, begin string) Value {
	switch all, some := glob.MatchBegin(pattern, begin); {
	case all:
		return True
	case some:
		return Unknown
	default:
		return False
	}
}

// matchAny returns whether one of the patterns matches the item.
func matchAny(on []string, it *Item, uri string, known bool) Value {
	if len(on) == 0 {
		return True
	}
	found := False
	for _, pattern := range on {
		var v Value
		switch {
		case it.kind != Template:
			v = valueOf(glob.Match(pattern, it.name))
		case known:
			v = valueOf(glob.Match(pattern, uri))
		default:
			v = matchTemplate(pattern, it.name)
		}
		if v == True {
			return True
		}
		if v == Unknown {
			found = Unknown
		}
	}
	return found
}
