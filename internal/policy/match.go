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

// match returns whether one of the patterns matches the item.
func (in *input) match(on []string) Value {
	if len(on) == 0 {
		return True
	}
	it, found := in.item, False
	for _, pattern := range on {
		var v Value
		switch {
		case in.unknown&readsName != 0: // then it.name is their prefix
			v = matchBegin(pattern, it.name)
		case it.kind != Template:
			v = valueOf(glob.Match(pattern, it.name))
		case in.unknown&readsURI == 0:
			v = valueOf(glob.Match(pattern, in.uriText))
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
