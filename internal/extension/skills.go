// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// Skills is the identifier of the extension by which a server offers skills (SEP-2640).
const Skills = "io.modelcontextprotocol/skills"

// SkillsOffer is what a server declares of the extension.
type SkillsOffer struct {
	Lists            bool // skills/list and skills/get
	ReadsDirectories bool // resources/directory/read
}

// SkillsOf returns what a capabilities object declares.
func SkillsOf(capabilities []byte) (offer SkillsOffer) {
	// Most servers have none. A name with another text has an escape.
	if !bytes.Contains(capabilities, []byte("skills")) && !bytes.Contains(capabilities, []byte(`\u`)) {
		return offer
	}
	settings := member(member(capabilities, "extensions"), Skills)
	if len(settings) == 0 || settings[0] != '{' {
		return offer // SEP-2133: the settings are an object
	}
	return SkillsOffer{true, string(member(settings, "directoryRead")) == "true"}
}

// Setting returns the extension as a member of the extensions of a server.
func (o SkillsOffer) Setting() string {
	if o.ReadsDirectories {
		return `"` + Skills + `":{"directoryRead":true}`
	}
	return `"` + Skills + `":{}`
}

// SkillProblem returns why an entry of skills/list, an object, cannot be offered, or "".
func SkillProblem(entry []byte) string {
	if frontmatter := member(entry, "frontmatter"); len(frontmatter) == 0 || frontmatter[0] != '{' {
		return "it has no frontmatter"
	}
	resources := member(entry, "resources")
	if len(resources) == 0 || resources[0] != '[' {
		return "" // "dynamic", or of a server before that was required: the host decides
	}
	for file := range jsonscan.Elements(resources) {
		if uri := member(file, "uri"); len(uri) == 0 || uri[0] != '"' {
			return "a file in its resources has no uri"
		}
	}
	return ""
}

// OuterSkill returns an entry of skills/list as clients of the gateway get it: with the outer URIs
// of the skill and of its files. Nothing else changes.
func OuterSkill(label string, entry []byte) []byte {
	return jsonscan.RewriteMembers(entry, func(name string, value []byte) []byte {
		switch name {
		case "uri":
			return outerText(label, value)
		case "resources":
			return outerResources(label, value)
		default:
			return value
		}
	})
}

// OuterSkillResult is OuterSkill for the result of skills/get.
func OuterSkillResult(label string, result []byte) []byte {
	return jsonscan.RewriteMembers(result, func(name string, value []byte) []byte {
		if name != "skill" || len(value) == 0 || value[0] != '{' {
			return value
		}
		return OuterSkill(label, value)
	})
}

// SkillOf returns the entry in a result of skills/get, or nil.
func SkillOf(result []byte) []byte {
	entry := member(result, "skill")
	if len(entry) == 0 || entry[0] != '{' {
		return nil
	}
	return entry
}

// WithSkill returns a result of skills/get with another entry.
func WithSkill(result, entry []byte) []byte {
	return jsonscan.RewriteMembers(result, func(name string, value []byte) []byte {
		if name == "skill" {
			return entry
		}
		return value
	})
}

// SkillFiles returns the URIs of the files in an entry.
func SkillFiles(entry []byte) (uris []string) {
	for file := range jsonscan.Elements(member(entry, "resources")) {
		if uri, ok := jsonscan.DecodeText(member(file, "uri")); ok {
			uris = append(uris, uri)
		}
	}
	return uris
}

// OuterDirectory returns the result of resources/directory/read as clients of the gateway get it:
// with the outer URIs of those children for which keep returns true, which gets an outer URI.
func OuterDirectory(label string, result []byte, keep func(uri string) bool) []byte {
	return jsonscan.RewriteMembers(result, func(name string, value []byte) []byte {
		if name != "resources" || len(value) == 0 || value[0] != '[' {
			return value
		}
		return jsonscan.RewriteElements(value, func(child []byte) []byte {
			own, ok := jsonscan.DecodeText(member(child, "uri"))
			if !ok || !keep(OuterURI(label, own)) {
				return nil
			}
			return outerURIOf(label, child)
		})
	})
}

// outerResources rewrites the URIs in a list of objects.
func outerResources(label string, list []byte) []byte {
	if len(list) == 0 || list[0] != '[' {
		return list
	}
	return jsonscan.RewriteElements(list, func(item []byte) []byte { return outerURIOf(label, item) })
}

// outerURIOf rewrites the URI of an object.
func outerURIOf(label string, item []byte) []byte {
	if len(item) == 0 || item[0] != '{' {
		return item
	}
	return jsonscan.RewriteMembers(item, func(name string, value []byte) []byte {
		if name == "uri" {
			return outerText(label, value)
		}
		return value
	})
}

// outerText rewrites a URI as JSON text.
func outerText(label string, value []byte) []byte {
	own, ok := jsonscan.DecodeText(value)
	if !ok {
		return value
	}
	if outer := OuterURI(label, own); outer != own {
		return jsonscan.AppendString(nil, outer)
	}
	return value
}

// member returns the value of a member of an object, or nil.
func member(object []byte, name string) []byte {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	for n, value := range jsonscan.Members(object) {
		if n == name {
			return value
		}
	}
	return nil
}
