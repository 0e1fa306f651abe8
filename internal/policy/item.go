// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// The kinds of items, as rules see them.
const (
	Tool        = "tool"
	Prompt      = "prompt"
	Resource    = "resource"
	Template    = "template"
	OtherMethod = "method" // of an extension that the gateway does not know
)

// An Item is an item as rules see it. It is immutable, and shared by all principals.
type Item struct {
	kind, name string

	kindVal, backend, nameVal, own, uri ref.Val
	annotations, tags                   ref.Val
	invalid                             reads // readsAnnotations, readsTags
	small                               bool  // all of it; see small

	tools *Item // what is known of the tools that a gate takes the place of, or nil; see NewGate
}

// NewItem returns the item of a backend, by the name that clients use and the backend's own.
// The name of a resource is its URI, and that of a template the template. raw is the item as it
// is listed, from which its annotations and tags are read, or nil for an item that is in no
// list; it is not retained.
//
// Tags are those of FastMCP, in _meta.fastmcp.tags or _meta._fastmcp.tags, and of any other
// server in _meta.tags.
func NewItem(kind, backend, name, own string, raw []byte) *Item {
	it := &Item{
		kind: kind, name: name,
		kindVal: types.String(kind), backend: types.String(backend), nameVal: types.String(name), own: types.String(own),
		uri: types.String(""), annotations: emptyMap(), tags: listOf(nil),
	}
	it.small = len(backend)+len(name)+len(own) <= small
	if kind == Resource {
		it.uri = it.nameVal
	}
	for member, value := range jsonscan.Members(raw) {
		switch member {
		case "annotations":
			it.small = it.small && len(value) <= small
			v, err := decode(value)
			if err != nil {
				it.invalid |= readsAnnotations
				continue
			}
			it.annotations = v
		case "_meta":
			it.small = it.small && len(value) <= small
			it.readTags(value)
		}
	}
	return it
}

func (it *Item) readTags(meta []byte) {
	var tags []string
	for member, value := range jsonscan.Members(meta) {
		switch member {
		case "tags":
			tags = it.appendTags(tags, value)
		case "fastmcp", "_fastmcp":
			for name, inner := range jsonscan.Members(value) {
				if name == "tags" {
					tags = it.appendTags(tags, inner)
				}
			}
		}
	}
	slices.Sort(tags)
	it.tags = listOf(slices.Compact(tags))
}

func (it *Item) appendTags(tags []string, raw []byte) []string {
	for element := range jsonscan.Elements(raw) {
		v, err := decodeValue(element)
		tag, ok := v.(types.String)
		if err != nil || !ok {
			it.invalid |= readsTags
			continue
		}
		tags = append(tags, string(tag))
	}
	return tags
}
