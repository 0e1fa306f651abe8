// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// This file is about pages: the HTML of apps (io.modelcontextprotocol/ui). A tool names the URI of its page, and the
// page is what resources/read returns for it.

const schemeUI = "ui:" // hosts differ in whether a URI without // is one of theirs

// IsPageURI reports whether a URI may be that of a page.
func IsPageURI(uri string) bool {
	return len(uri) >= len(schemeUI) && strings.EqualFold(uri[:len(schemeUI)], schemeUI)
}

// PageURIs returns the URIs of the pages that the definition of a tool names: in _meta.ui.resourceUri, and in the two
// members that hosts read, too.
func PageURIs(tool []byte) (uris []string) {
	for name, meta := range jsonscan.Members(tool) {
		if name != "_meta" {
			continue
		}
		for name, value := range jsonscan.Members(meta) {
			switch name {
			case "ui":
				for name, value := range jsonscan.Members(value) {
					if name == "resourceUri" {
						uris = appendPage(uris, value)
					}
				}
			case "ui/resourceUri", "openai/outputTemplate":
				uris = appendPage(uris, value)
			}
		}
	}
	return uris
}

func appendPage(uris []string, value []byte) []string {
	if uri, ok := jsonscan.DecodeText(value); ok && IsPageURI(uri) && !slices.Contains(uris, uri) {
		return append(uris, uri)
	}
	return uris
}

// PageOf returns the definition of a page from the result of resources/read: its content with all members but the
// URI, which is the name of the definition. It reports false for a result without contents, such as one that asks for
// input.
func PageOf(result []byte) (definition json.RawMessage, ok bool) {
	var all []json.RawMessage
	for name, contents := range jsonscan.Members(result) {
		if name != "contents" {
			continue
		}
		ok = true
		for content := range jsonscan.Elements(contents) {
			all = append(all, jsonscan.RewriteMembers(content, func(name string, value []byte) []byte {
				if name == "uri" {
					return nil
				}
				return value
			}))
		}
	}
	if len(all) == 1 {
		return all[0], true
	}
	definition = append(definition, `{"contents":[`...)
	for i, content := range all {
		if i > 0 {
			definition = append(definition, ',')
		}
		definition = append(definition, content...)
	}
	return append(definition, "]}"...), ok
}
