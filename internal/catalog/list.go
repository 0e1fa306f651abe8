// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"iter"
	"slices"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// List returns one page of a list as a whole result, ttlMs and cacheScope
// included. No cursor is the first page, and so is an empty one: it is none that
// a Catalog gives out. A cursor leads on from the item that it was given out
// after, also when the lists have changed since; if the item is gone, the error
// is an [*mcp.Error] of [mcp.CodeInvalidParams], and the client has to start over
// (2026-07-28, server/utilities/pagination, "Error Handling").
//
// The result is shared and must not be changed.
func (c *Catalog) List(k Kind, cursor string) (*mcp.Result, error) {
	res, ok := c.sections[k].list(cursor)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown cursor: list again from the beginning")
	}
	return res, nil
}

// Entries returns what is offered of a kind, in the order of the list.
func (c *Catalog) Entries(k Kind) iter.Seq[*Entry] {
	return slices.Values(c.sections[k].entries)
}

// Len returns how many items of a kind are offered.
func (c *Catalog) Len(k Kind) int { return len(c.sections[k].entries) }

// Tool returns the tool that clients know by the name.
func (c *Catalog) Tool(name string) (*Entry, bool) { return c.sections[Tools].find(name) }

// Prompt returns the prompt that clients know by the name.
func (c *Catalog) Prompt(name string) (*Entry, bool) { return c.sections[Prompts].find(name) }

// Reference returns what the ref of a completion request means, and the member
// whose value the backend is to get the entry's Own in: FieldRefName or
// FieldRefURI. A URI may be a template or that of a resource.
func (c *Catalog) Reference(params *mcp.Object) (*Entry, mcp.Field, bool) {
	kind, _ := params.Text(mcp.FieldRefType)
	switch kind {
	case "ref/prompt":
		name, _ := params.Text(mcp.FieldRefName)
		e, ok := c.Prompt(name)
		return e, mcp.FieldRefName, ok
	case "ref/resource":
		uri, _ := params.Text(mcp.FieldRefURI)
		if e, ok := c.sections[Templates].find(uri); ok {
			return e, mcp.FieldRefURI, true
		}
		e, ok := c.Resource(uri)
		return e, mcp.FieldRefURI, ok
	default:
		return nil, mcp.FieldNone, false
	}
}
