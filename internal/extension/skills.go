// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bytes"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

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
	settings := member(member(capabilities, Member), Skills)
	if !isObject(settings) {
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

// WithSkills returns the capabilities of a client with the extension.
func WithSkills(capabilities []byte) []byte {
	if Declares(capabilities, Skills) {
		return capabilities
	}
	if !isObject(capabilities) {
		capabilities = []byte("{}")
	}
	return withObject(capabilities, Member, func(all []byte) []byte {
		return jsonscan.WithMember(without(all, Skills), Skills, []byte("{}"))
	})
}

// SkillProblem returns why an entry of skills/list, an object, cannot be offered, or "".
func SkillProblem(entry []byte) string {
	if frontmatter := member(entry, "frontmatter"); !isObject(frontmatter) {
		return "it has no frontmatter"
	}
	// "dynamic" has no files, and an absent member is left to the host.
	for file := range jsonscan.Elements(member(entry, "resources")) {
		if _, ok := SkillURI(file); !ok {
			return "a file in its resources has no uri"
		}
	}
	return ""
}

// SkillURI returns the URI of a skill, or of a file in its resources.
func SkillURI(object []byte) (string, bool) { return jsonscan.DecodeText(member(object, "uri")) }

// SkillOf returns the entry in a result of skills/get, or why that is not valid.
func SkillOf(result []byte) (entry []byte, problem string) {
	if entry = member(result, "skill"); !isObject(entry) {
		return nil, "it has no skill"
	}
	if name := twice(entry); name != "" {
		return nil, "it has the member " + name + " twice"
	}
	return entry, SkillProblem(entry)
}

// twice returns the name of a member that an object has twice, or "".
func twice(object []byte) string {
	seen := make(map[string]bool)
	for name := range jsonscan.Members(object) {
		if seen[name] {
			return name
		}
		seen[name] = true
	}
	return ""
}

// WithSkill returns a result of skills/get with another entry.
func WithSkill(result, entry []byte) []byte {
	return rewriteMember(result, "skill", func([]byte) []byte { return entry })
}

// OuterSkill returns an entry of skills/list as clients of the gateway get it: with the outer URIs
// of the skill and of its files. Nothing else changes.
func OuterSkill(label string, entry []byte) []byte {
	o := outer(label)
	return rewriteMember(o.ofURI(entry), "resources", func(files []byte) []byte {
		return jsonscan.RewriteElements(files, o.ofURI)
	})
}

// SkillURIs returns the URIs of a skill: of its file with the instructions, of its other files, and of
// its directories, each once.
func SkillURIs(entry []byte) (uris []string) {
	seen := make(map[string]bool)
	add := func(uri string) bool {
		isNew := !seen[uri]
		if isNew {
			seen[uri] = true
			uris = append(uris, uri)
		}
		return isNew
	}
	main, _ := SkillURI(entry)
	add(main)
	root := max(strings.LastIndexByte(main, '/'), 0)
	add(main[:root])
	for file := range jsonscan.Elements(member(entry, "resources")) {
		uri, _ := SkillURI(file)
		add(uri)
		for strings.HasPrefix(uri, main[:root]+"/") {
			uri = uri[:strings.LastIndexByte(uri, '/')]
			if !add(uri) {
				break
			}
		}
	}
	return uris
}

// OuterDirectory returns the result of resources/directory/read as clients of the gateway get it:
// with the outer URIs of those children for which keep returns true, which gets the backend's own URI.
func OuterDirectory(label string, result []byte, keep func(uri string) bool) []byte {
	return rewriteMember(result, "resources", func(children []byte) []byte {
		return jsonscan.RewriteElements(children, func(child []byte) []byte {
			own, ok := SkillURI(child)
			if !ok || twice(child) != "" || !keep(own) {
				return nil
			}
			return outer(label).ofURI(child)
		})
	})
}

// member returns the value of a member of an object, or nil.
func member(object []byte, name string) []byte {
	for n, value := range jsonscan.Members(object) {
		if n == name {
			return value
		}
	}
	return nil
}
