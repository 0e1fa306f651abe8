// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"iter"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// List returns one page of a list as a complete result, including ttlMs and cacheScope.
// An empty cursor means the first page; a Catalog never returns one. Any other cursor
// continues after the item for which it was made, even if the lists have changed since.
// If that item is gone, the error is an [*mcp.Error] with [mcp.CodeInvalidParams], and
// the client must start again (2026-07-28, server/utilities/pagination, "Error
// Handling").
//
// The result is shared and must not be changed.
func (c *Catalog) List(k Kind, cursor string) (*mcp.Result, error) {
	return c.sections[k].page(cursor)
}

func (s *section) page(cursor string) (*mcp.Result, error) {
	res, ok := s.list(cursor)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown cursor: list again from the beginning")
	}
	return res, nil
}

// Entries returns the offered items of a kind, in the order of the list.
func (c *Catalog) Entries(k Kind) iter.Seq[*Entry] {
	return c.sections[k].all()
}

// Placed returns the items of a kind by their Place, also those that are not in this part of a Catalog. They must not be
// changed.
func (c *Catalog) Placed(k Kind) []*Entry {
	if t := c.sections[k].table; t != nil {
		return t.entries
	}
	return nil
}

// Find returns the item of a kind with the name, URI or template that clients use.
func (c *Catalog) Find(k Kind, name string) (*Entry, bool) { return c.sections[k].find(name) }

// Tool returns the tool with the name that clients use.
func (c *Catalog) Tool(name string) (*Entry, bool) { return c.sections[Tools].find(name) }

// Prompt returns the prompt with the name that clients use.
func (c *Catalog) Prompt(name string) (*Entry, bool) { return c.sections[Prompts].find(name) }

// Reference returns the entry that the ref of a completion request refers to, and the
// member that must be set to the entry's Own for the backend: FieldRefName or
// FieldRefURI. A URI may be a template's or a resource's.
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
		if e, ok := c.templateOf(uri); ok {
			return e, mcp.FieldRefURI, true
		}
		e, ok := c.Resource(uri)
		return e, mcp.FieldRefURI, ok
	default:
		return nil, mcp.FieldNone, false
	}
}
