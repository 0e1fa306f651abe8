// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"maps"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// The bounds of a signature.
const (
	maxTypeDepth = 6       // objects and arrays in one another
	maxComment   = 100     // bytes of the description of an argument
	maxRefs      = 100     // references that are followed
	maxSignature = 8 << 10 // bytes; types beyond it are unknown, and without descriptions
)

// Signature returns the arguments of a tool as a TypeScript type, which is much shorter than the
// JSON Schema. What the type cannot express, such as a pattern, is left out. Parts that are nested too
// deep, or refer to another document, have the type unknown.
func Signature(inputSchema []byte) string {
	s := signature{root: inputSchema}
	s.write(inputSchema, 0)
	return s.String()
}

// signature is one that is being written.
type signature struct {
	strings.Builder

	root []byte // for references
	refs int    // that were followed to get here
}

// write writes the type of a schema.
func (s *signature) write(schema []byte, depth int) {
	if !jsonscan.IsObject(schema) || depth > maxTypeDepth || s.Len() > maxSignature {
		s.WriteString("unknown")
		return
	}
	m := maps.Collect(jsonscan.Members(schema))
	kind := jsonscan.TextOf(m["type"])
	switch {
	case m["$ref"] != nil:
		s.writeRef(m["$ref"], depth)
	case m["const"] != nil:
		s.writeValue(m["const"])
	case isArray(m["enum"]):
		s.union(m["enum"], s.writeValue)
	case isArray(m["anyOf"]):
		s.union(m["anyOf"], func(part []byte) { s.write(part, depth+1) })
	case isArray(m["oneOf"]):
		s.union(m["oneOf"], func(part []byte) { s.write(part, depth+1) })
	case isArray(m["type"]):
		s.union(m["type"], func(name []byte) {
			s.writeKind(jsonscan.TextOf(name), m, depth)
		})
	default:
		s.writeKind(kind, m, depth)
	}
}

// writeValue writes a value as the type that has only this one.
func (s *signature) writeValue(value []byte) {
	if s.Len()+len(value) > maxSignature {
		value = []byte("unknown")
	}
	s.Write(value)
}

// writeKind writes the type of a schema with a type and members.
func (s *signature) writeKind(kind string, m map[string][]byte, depth int) {
	switch {
	case kind == "string", kind == "boolean", kind == "null":
		s.WriteString(kind)
	case kind == "number", kind == "integer":
		s.WriteString("number")
	case kind == "array" && m["items"] == nil:
		s.WriteString("unknown[]")
	case kind == "array":
		s.WriteString("Array<")
		s.write(m["items"], depth+1)
		s.WriteString(">")
	case m["properties"] != nil:
		s.writeObject(m, depth)
	case kind == "object" && jsonscan.IsObject(m["additionalProperties"]):
		s.WriteString("Record<string, ")
		s.write(m["additionalProperties"], depth+1)
		s.WriteString(">")
	case kind == "object" && depth == 0 && string(m["additionalProperties"]) != "true":
		s.WriteString("{}")
	case kind == "object":
		s.WriteString("Record<string, unknown>")
	default:
		s.WriteString("unknown")
	}
}

// writeObject writes the type of an object with properties, and the description of each.
func (s *signature) writeObject(m map[string][]byte, depth int) {
	required := make(map[string]bool)
	for name := range jsonscan.Elements(m["required"]) {
		required[jsonscan.TextOf(name)] = true
	}
	s.WriteString("{ ")
	first := true
	for name, schema := range jsonscan.Members(m["properties"]) {
		if !first {
			s.WriteString("; ")
		}
		first = false
		s.writeName(name)
		if !required[name] {
			s.WriteByte('?')
		}
		s.WriteString(": ")
		s.write(schema, depth+1)
		s.writeComment(schema)
	}
	s.WriteString(" }")
}

// writeName writes the name of a property, in quotes unless it is a word.
func (s *signature) writeName(name string) {
	isPart := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '$'
	}
	if name == "" || '0' <= name[0] && name[0] <= '9' || strings.ContainsFunc(name, func(r rune) bool { return !isPart(r) }) {
		name = string(jsonscan.AppendString(nil, name))
	}
	s.WriteString(name)
}

// writeComment writes the first line of the description of a schema.
func (s *signature) writeComment(schema []byte) {
	if s.Len() > maxSignature {
		return
	}
	text := jsonscan.TextOf(jsonscan.Member(schema, "description"))
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > maxComment {
		text = strings.ToValidUTF8(text[:maxComment], "") + "..."
	}
	if text = strings.TrimSpace(strings.ReplaceAll(text, "*/", "* /")); text != "" {
		s.WriteString(" /* " + text + " */")
	}
}

// writeRef writes the type that a reference within the schema leads to.
func (s *signature) writeRef(ref []byte, depth int) {
	rest, ok := strings.CutPrefix(jsonscan.TextOf(ref), "#/")
	if s.refs++; !ok || s.refs > maxRefs {
		s.WriteString("unknown")
		return
	}
	at := s.root
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		at = jsonscan.Member(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	s.write(at, depth+1)
}

// union writes the elements of an array as alternatives.
func (s *signature) union(array []byte, write func([]byte)) {
	first := true
	for element := range jsonscan.Elements(array) {
		if !first {
			s.WriteString(" | ")
		}
		first = false
		if s.Len() > maxSignature {
			s.WriteString("unknown")
			break
		}
		write(element)
	}
	if first {
		s.WriteString("never")
	}
}

func isArray(raw []byte) bool { return len(raw) > 0 && raw[0] == '[' }
