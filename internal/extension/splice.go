// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import "github.com/signalbox-mcp/signalbox/internal/jsonscan"

// MetaURIs returns the URIs of apps in a _meta, as far as they are names, and nil if there are
// none.
func MetaURIs(meta []byte) []string {
	var found []string
	rewriteMeta(meta, func(value []byte) []byte {
		if uri, ok := jsonscan.DecodeText(value); ok && IsName(uri) {
			found = append(found, uri)
		}
		return value
	})
	return found
}

// OuterItem returns a tool with the outer URIs in its _meta. Like the other functions that return
// JSON, it copies nothing if there is nothing to change.
func OuterItem(label string, item []byte) []byte {
	return rewriteMember(item, "_meta", func(meta []byte) []byte { return rewriteMeta(meta, outer(label).text) })
}

// OuterCall returns a result of tools/call with outer URIs: in its resource links, its embedded
// resources, and its _meta.
func OuterCall(label string, result []byte) []byte {
	o := outer(label)
	return o.members(result, "content", func(list []byte) []byte {
		return jsonscan.RewriteElements(list, o.ofContent)
	})
}

// OuterPrompt is OuterCall for a result of prompts/get.
func OuterPrompt(label string, result []byte) []byte {
	o := outer(label)
	return o.members(result, "messages", func(list []byte) []byte {
		return jsonscan.RewriteElements(list, func(message []byte) []byte {
			return rewriteMember(message, "content", func(content []byte) []byte {
				if len(content) > 0 && content[0] == '[' {
					return jsonscan.RewriteElements(content, o.ofContent)
				}
				return o.ofContent(content)
			})
		})
	})
}

// OuterRead is OuterCall for a result of resources/read.
func OuterRead(label string, result []byte) []byte {
	o := outer(label)
	return rewriteMember(result, "contents", func(list []byte) []byte {
		return jsonscan.RewriteElements(list, o.ofURI)
	})
}

// OuterTask is OuterCall for the state of a task, which may have the result of a call.
func OuterTask(label string, task []byte) []byte {
	return rewriteMember(task, "result", func(result []byte) []byte { return OuterCall(label, result) })
}

// outer is the label of a backend.
type outer string

// text returns a JSON string with the outer URI, if it is a name.
func (o outer) text(value []byte) []byte {
	uri, ok := jsonscan.DecodeText(value)
	if !ok || o == "" || !IsName(uri) {
		return value
	}
	return jsonscan.AppendString(nil, OuterURI(string(o), uri))
}

// members rewrites one member of an object, and its _meta.
func (o outer) members(object []byte, name string, f func([]byte) []byte) []byte {
	return jsonscan.RewriteMembers(object, func(member string, value []byte) []byte {
		switch member {
		case name:
			return f(value)
		case "_meta":
			return rewriteMeta(value, o.text)
		default:
			return value
		}
	})
}

// ofContent rewrites a resource link or an embedded resource.
func (o outer) ofContent(content []byte) []byte {
	kind := ""
	for name, value := range jsonscan.Members(content) {
		if name == "type" {
			kind, _ = jsonscan.DecodeText(value)
		}
	}
	switch kind {
	case "resource_link":
		return o.ofURI(content)
	case "resource":
		return rewriteMember(content, "resource", o.ofURI)
	default:
		return content
	}
}

func (o outer) ofURI(object []byte) []byte { return rewriteMember(object, "uri", o.text) }

// rewriteMeta rewrites the URIs of apps in a _meta.
func rewriteMeta(meta []byte, f func(value []byte) []byte) []byte {
	return jsonscan.RewriteMembers(meta, func(name string, value []byte) []byte {
		switch name {
		case metaUI:
			return rewriteMember(value, resourceURI, f)
		case metaPage, metaTemplate:
			return f(value)
		default:
			return value
		}
	})
}

// rewriteMember rewrites the member of an object.
func rewriteMember(object []byte, member string, f func(value []byte) []byte) []byte {
	return jsonscan.RewriteMembers(object, func(name string, value []byte) []byte {
		if name == member {
			return f(value)
		}
		return value
	})
}
