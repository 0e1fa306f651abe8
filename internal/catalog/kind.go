// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Kind is one of the lists of the protocol.
type Kind uint8

// The kinds; NumKinds is their number.
const (
	Tools Kind = iota
	Resources
	Templates
	Prompts
	Skills
	NumKinds
)

// Method returns the method that lists items of the kind.
func (k Kind) Method() string {
	return [NumKinds]string{"tools/list", "resources/list", "resources/templates/list", "prompts/list", "skills/list"}[k]
}

// KindOf returns the kind of the items that the method lists.
func KindOf(method string) (Kind, bool) {
	for k := range NumKinds {
		if k.Method() == method {
			return k, true
		}
	}
	return 0, false
}

// Field returns the member of the list's result that holds the items.
func (k Kind) Field() mcp.Field {
	return [NumKinds]mcp.Field{mcp.FieldTools, mcp.FieldResources, mcp.FieldResourceTemplates, mcp.FieldPrompts, mcp.FieldSkills}[k]
}

// String returns the name of one item of the kind.
func (k Kind) String() string {
	return [NumKinds]string{"tool", "resource", "resource template", "prompt", "skill"}[k]
}

// named reports whether items have a name, which the gateway may change, instead of a
// URI.
func (k Kind) named() bool { return k == Tools || k == Prompts }

// declaredIn reports whether a server with these capabilities has items of the kind.
func (k Kind) declaredIn(capabilities []byte) bool {
	if k == Skills {
		return extension.SkillsOf(capabilities).Lists
	}
	return declares(capabilities, [...]string{"tools", "resources", "resources", "prompts"}[k])
}
