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
// 2^53-1, or stands twice. For several headers of one call see [ParamValues].
func (p ParamHeader) Value(arguments []byte) (string, bool, error) {
	v := ParamValues([]ParamHeader{p}, arguments)[0]
	return v.Text, v.Present, v.Err
}

// ParamValue is what one header of a call says: what [ParamHeader.Value] returns.
type ParamValue struct {
	Text    string
	Present bool
	Err     error
}

// ParamValues returns the values of the headers of one call, in the order in
// which the headers are given. The arguments are read once, however many headers
// there are and however deep their arguments lie: neither a schema nor a call can
// make the work larger than the two together.
func ParamValues(headers []ParamHeader, arguments []byte) []ParamValue {
	values := make([]ParamValue, len(headers))
	found := findArguments(headers, arguments)
	for i, p := range headers {
		values[i] = p.valueOf(found[i])
	}
	return values
}

func (p ParamHeader) valueOf(a argument) ParamValue {
	if a.err != nil || a.raw == nil || string(a.raw) == "null" {
		return ParamValue{Err: a.err}
	}
	text, ok := mirrored(a.raw)
	if !ok {
		return ParamValue{Err: fmt.Errorf("argument %s is %s, which no header can mirror", p.path(), kindOf(a.raw))}
	}
	return ParamValue{Text: text, Present: true}
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

// CheckParamHeaders holds the Mcp-Param-* headers of a request, by canonical
// name and undecoded, against the arguments in its body. Integers are compared
// as numbers, all else as text. A request that came without a layer of headers
// has a nil map, and nothing to hold against.
//
// The error is an [*Error] of [CodeHeaderMismatch]. An argument that is there twice is
// one of [CodeInvalidParams], also without a layer of headers: a header can mirror one of
// the two, and the tool may read the other.
func CheckParamHeaders(want []ParamHeader, got map[string][]string, arguments []byte) error {
	if len(want) == 0 {
		return nil
	}
	for i, body := range ParamValues(want, arguments) {
		p := want[i]
		if errors.Is(body.Err, errArgumentTwice) {
			return Errorf(CodeInvalidParams, "%v; the header %s can mirror one: send it once", body.Err, p.Header())
		}
		if got == nil {
			continue
		}
		if reason := p.check(got[p.Header()], body); reason != "" {
			return Errorf(CodeHeaderMismatch, "header mismatch: %s %s", p.Header(), reason)
		}
	}
	return nil
}

// check returns what is wrong with the header, or nothing.
//
// A header without a value in the body is refused: somebody on the way may have
// routed by it. A value that no header can mirror and that comes without one
// passes, because only the tool can say what is wrong with it.
func (p ParamHeader) check(values []string, body ParamValue) string {
	switch {
	case len(values) > 1:
		return "stands more than once"
	case len(values) == 0 && body.Present:
		return "is missing; the body has " + quoted([]byte(body.Text)) + " in argument " + p.path()
	case len(values) == 0:
		return "" // absent or null; or nothing that a header could say, which is the tool's to refuse
	}
	header, decodeErr := DecodeHeaderValue(values[0])
	switch {
	case decodeErr != nil:
		return "is malformed: " + decodeErr.Error()
	case body.Err != nil:
		return quoted([]byte(header)) + " does not match the body: " + body.Err.Error()
	case !body.Present:
		return quoted([]byte(header)) + " does not match the body, which has no argument " + p.path()
	case p.equal(header, body.Text):
		return ""
	default:
		return quoted([]byte(header)) + " does not match the body's " + quoted([]byte(body.Text)) + " in argument " + p.path()
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
