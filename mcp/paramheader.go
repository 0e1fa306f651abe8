// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"net/textproto"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

const paramHeaderPrefix = "Mcp-Param-"

// A ParamHeader is one x-mcp-header annotation of a tool's input schema: an argument of
// the tool that is mirrored into a header of the request (2026-07-28,
// basic/transports/streamable-http, "Custom Headers from Tool Parameters").
type ParamHeader struct {
	Name string   // without Mcp-Param-, as spelled in the schema
	Path []string // the chain of properties that leads to the argument
	Type string   // "string", "integer" or "boolean"
}

// Header returns the canonical name of the header.
func (p ParamHeader) Header() string {
	return textproto.CanonicalMIMEHeaderKey(paramHeaderPrefix + p.Name)
}

// Value returns the value of the header for a call with these arguments, not yet
// encoded. It reports false if the argument is absent or null: then there is no header.
// It returns an error if the argument has no value that a header can mirror: it is an
// object or an array, a number that is not an integer within 2^53-1, or a duplicate.
func (p ParamHeader) Value(arguments []byte) (string, bool, error) {
	v := jsonscan.Arguments([][]string{p.Path}, arguments)[0]
	return v.Text, v.Present, v.Err
}

func (p ParamHeader) path() string { return jsonscan.Quoted([]byte(strings.Join(p.Path, "."))) }

// CheckParamHeaders compares the Mcp-Param-* headers of a request, by canonical name
// and undecoded, with the arguments in its body. Integers are compared as numbers,
// other values as text. got is nil for a request without headers; then nothing is
// compared.
//
// The error is an [*Error] with [CodeHeaderMismatch]. For a duplicate argument the code
// is [CodeInvalidParams], also without headers: a header can mirror only one of the
// two, and the tool may read the other.
func CheckParamHeaders(want []ParamHeader, got map[string][]string, arguments []byte) error {
	if len(want) == 0 {
		return nil
	}
	paths := make([][]string, len(want))
	for i, p := range want {
		paths[i] = p.Path
	}
	for i, body := range jsonscan.Arguments(paths, arguments) {
		p := want[i]
		if errors.Is(body.Err, jsonscan.ErrDuplicate) {
			return Errorf(CodeInvalidParams, "%v; the header %s can mirror only one: send it once", body.Err, p.Header())
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

// check returns what is wrong with the header, or "".
//
// A header without a value in the body is rejected, because an intermediary may have
// routed by it. A value that a header cannot mirror passes without a header, because
// only the tool can report what is wrong with it.
func (p ParamHeader) check(values []string, body jsonscan.Argument) string {
	switch {
	case len(values) > 1:
		return "appears more than once"
	case len(values) == 0 && body.Present:
		return "is missing; the body has " + jsonscan.Quoted([]byte(body.Text)) + " in argument " + p.path()
	case len(values) == 0:
		return "" // absent or null, or a value that a header cannot mirror
	}
	header, decodeErr := DecodeHeaderValue(values[0])
	switch {
	case decodeErr != nil:
		return "is malformed: " + decodeErr.Error()
	case body.Err != nil:
		return jsonscan.Quoted([]byte(header)) + " does not match the body: " + body.Err.Error()
	case !body.Present:
		return jsonscan.Quoted([]byte(header)) + " does not match the body, which has no argument " + p.path()
	case p.equal(header, body.Text):
		return ""
	default:
		return jsonscan.Quoted([]byte(header)) + " does not match the body's " + jsonscan.Quoted([]byte(body.Text)) + " in argument " + p.path()
	}
}

func (p ParamHeader) equal(header, body string) bool {
	if header == body {
		return true
	}
	if p.Type != "integer" {
		return false
	}
	h, ok1 := jsonscan.SafeInteger([]byte(header))
	b, ok2 := jsonscan.SafeInteger([]byte(body))
	return ok1 && ok2 && h == b
}
