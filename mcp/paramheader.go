// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
)

const paramHeaderPrefix = "Mcp-Param-"

// ParamHeader is one x-mcp-header annotation of a tool's input schema: an
// argument of the tool that is mirrored into a header of the request
// (2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool
// Parameters").
type ParamHeader struct {
	Name string   // without Mcp-Param-, in the schema's spelling
	Path []string // the chain of properties that leads to the argument
	Type string   // "string", "integer" or "boolean"
}

// Header returns the header's canonical name.
func (p ParamHeader) Header() string {
	return textproto.CanonicalMIMEHeaderKey(paramHeaderPrefix + p.Name)
}

// Value returns what the header of a call with these arguments says, not yet
// encoded. It reports false where the argument is absent or null: then there is
// no header. The error says that the argument has no value that a header could
// mirror: it is an object or an array, a number that is no integer within
// 2^53-1, or stands twice.
func (p ParamHeader) Value(arguments []byte) (string, bool, error) {
	token, err := argument(arguments, p.Path)
	if err != nil || token == nil {
		return "", false, err
	}
	text, ok := mirrored(token)
	if !ok {
		return "", false, fmt.Errorf("argument %s is %s, which no header can mirror", p.path(), kindOf(token))
	}
	return text, true, nil
}

func (p ParamHeader) path() string { return quoted([]byte(strings.Join(p.Path, "."))) }

// mirrored returns a scanned value as a header says it. What counts is what the
// value is, not what the schema would have it be: arguments are the tool's to
// judge.
func mirrored(token []byte) (string, bool) {
	switch token[0] {
	case '"':
		return decodeText(token)
	case 't', 'f':
		return string(token), true
	case '{', '[':
		return "", false
	default:
		return safeInteger(token)
	}
}

var errArgumentTwice = errors.New("stands twice in the arguments")

// argument returns the value at the end of a path, or nil where there is none or
// null. It is an error, errArgumentTwice, if a member on the way stands twice,
// because then the header and the tool may mean different ones.
func argument(raw []byte, path []string) ([]byte, error) {
	for _, name := range path {
		if len(raw) == 0 || raw[0] != '{' {
			return nil, nil
		}
		value, err := uniqueMember(raw, name)
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", quoted([]byte(name)), err)
		}
		raw = value
	}
	if string(raw) == "null" {
		return nil, nil
	}
	return raw, nil
}

// uniqueMember returns a member of an object, or nil.
func uniqueMember(raw []byte, name string) ([]byte, error) {
	var value []byte
	s := newScanner(raw, Limits{Depth: maxDepth, Members: len(raw)})
	for i := s.first(0); i >= 0; i = s.next(i) {
		key := i
		if i = s.key(i); i < 0 {
			break
		}
		same := s.keyText(key) == name
		start := i
		if i = s.value(i, 1); i < 0 {
			break
		}
		if same && value != nil {
			return nil, errArgumentTwice
		}
		if same {
			value = raw[start:i:i]
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	return value, nil
}

// CheckParamHeaders holds the Mcp-Param-* headers of a request, by canonical
// name and undecoded, against the arguments in its body. Integers are compared
// as numbers, all else as text. A request that came without a layer of headers
// has a nil map, and nothing to hold against.
//
// The error is an [*Error] of [CodeHeaderMismatch].
func CheckParamHeaders(want []ParamHeader, got map[string][]string, arguments []byte) error {
	if got == nil {
		return nil
	}
	for _, p := range want {
		if reason := p.check(got[p.Header()], arguments); reason != "" {
			return Errorf(CodeHeaderMismatch, "header mismatch: %s %s", p.Header(), reason)
		}
	}
	return nil
}

// check returns what is wrong with the header, or nothing.
//
// A header without a value in the body is refused: somebody on the way may have
// routed by it. A value that no header can mirror and that comes without one
// passes, because only the tool can say what is wrong with it. An argument that
// stands twice never passes: the header mirrors one and the tool may read the
// other.
func (p ParamHeader) check(values []string, arguments []byte) string {
	if len(values) > 1 {
		return "stands more than once"
	}
	body, present, err := p.Value(arguments)
	switch {
	case errors.Is(err, errArgumentTwice):
		return "has no one value: " + err.Error()
	case len(values) == 0 && present:
		return "is missing; the body has " + quoted([]byte(body)) + " in argument " + p.path()
	case len(values) == 0:
		return "" // absent or null; or nothing that a header could say, which is the tool's to refuse
	}
	header, decodeErr := DecodeHeaderValue(values[0])
	switch {
	case decodeErr != nil:
		return "is malformed: " + decodeErr.Error()
	case err != nil:
		return quoted([]byte(header)) + " does not match the body: " + err.Error()
	case !present:
		return quoted([]byte(header)) + " does not match the body, which has no argument " + p.path()
	case p.equal(header, body):
		return ""
	default:
		return quoted([]byte(header)) + " does not match the body's " + quoted([]byte(body)) + " in argument " + p.path()
	}
}

func (p ParamHeader) equal(header, body string) bool {
	if header == body {
		return true
	}
	if p.Type != "integer" {
		return false
	}
	h, ok1 := safeInteger([]byte(header))
	b, ok2 := safeInteger([]byte(body))
	return ok1 && ok2 && h == b
}
