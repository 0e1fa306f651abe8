// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// initModernHTTP sets the request up from a modern message over HTTP, and checks the
// headers against the body. Missing fields in the body are reported first, then
// differences, then what is not served.
func (s *Server) initModernHTTP(ir *inflightRequest, r *http.Request, m *mcp.Message, from sender) *mcp.Error {
	named := r.Header.Get(versionHeader)
	switch missing := missingMeta(m); {
	case missing == "":
		if err := checkMirror(r.Header, m); err != nil {
			return err
		}
	case !m.Params.Has(mcp.MetaVersion) && named != "" && mcp.Version(named).Era() == mcp.EraUnknown:
		// The other fields of such a revision are unknown here.
		return unsupportedVersion(named)
	}
	if err := ir.initModern(m, from); err != nil {
		return err
	}
	ir.original.ParamHeaders = paramHeaders(r.Header, s.noHeaders)
	if values := r.Header[nameHeader]; values != nil && !mcp.IsMethod(m.Method) {
		ir.original.ParamHeaders = withName(ir.original.ParamHeaders, values)
	}
	return nil
}

// checkMirror: 2026-07-28, basic/transports/streamable-http, "Server Validation".
func checkMirror(h http.Header, m *mcp.Message) *mcp.Error {
	if !mirrors(h, versionHeader, m.Params.Raw(mcp.MetaVersion)) {
		version, _ := m.Params.Text(mcp.MetaVersion)
		if err := checkHeader(h, versionHeader, version, false); err != nil {
			return err
		}
	}
	if err := checkHeader(h, methodHeader, m.Method, false); err != nil {
		return err
	}
	field := mcp.NameField(m.Method)
	if field == mcp.FieldNone || mirrors(h, nameHeader, m.Params.Raw(field)) {
		return nil
	}
	name, ok := m.Params.Text(field)
	if !ok {
		return mcp.Errorf(mcp.CodeInvalidParams, "params.%s must be a string", field.Key())
	}
	return checkHeader(h, nameHeader, name, true)
}

// mirrors reports whether a header equals the JSON string raw byte for byte, and needs no
// decoding: the usual case. All others are left to checkHeader.
func mirrors(h http.Header, key string, raw []byte) bool {
	values := h[key]
	if len(values) != 1 || len(raw) < 2 || raw[0] != '"' {
		return false
	}
	inner := raw[1 : len(raw)-1]
	if string(inner) != values[0] || len(inner) == 0 {
		return false
	}
	for _, c := range inner {
		if !isPlain(c) {
			return false
		}
	}
	return true
}

// isPlain reports whether c represents itself both in a JSON string and in an encoded
// header, and is part of no encoding in either.
func isPlain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	default:
		return c == '-' || c == '_' || c == '.' || c == '/' || c == ':'
	}
}

// checkHeader compares one header with the value in the body.
func checkHeader(h http.Header, key, want string, encoded bool) *mcp.Error {
	values := h[key]
	switch {
	case len(values) == 0:
		return mismatch("%s header is missing; the body has %s", spelled(key), escape(want))
	case len(values) > 1:
		return mismatch("%s header appears %d times; the body has %s", spelled(key), len(values), escape(want))
	}
	got := strings.Trim(values[0], " \t")
	if encoded {
		decoded, err := mcp.DecodeHeaderValue(got)
		if err != nil {
			return mismatch("%s header %s: %v; the body has %s", spelled(key), escape(got), err, escape(want))
		}
		got = decoded
	}
	if got != want {
		return mismatch("%s header is %s; the body has %s", spelled(key), escape(got), escape(want))
	}
	return nil
}

// spelled returns a header as the specification writes it.
func spelled(key string) string {
	if key == versionHeader {
		return "MCP-Protocol-Version"
	}
	return key
}

func mismatch(format string, args ...any) *mcp.Error {
	return mcp.Errorf(mcp.CodeHeaderMismatch, format, args...)
}

// paramHeaders returns the headers that mirror tool arguments, for the Handler, which
// knows the tool. It never returns nil. Headers that the client declared for this
// connection only are left out, since a Handler forwards headers that it does not know
// (RFC 9110, section 7.6.1).
//
// If there are none, it returns the map none, which is shared and must not be changed.
func paramHeaders(h http.Header, none map[string][]string) map[string][]string {
	var found map[string][]string
	for key, values := range h {
		if !strings.HasPrefix(key, paramPrefix) {
			continue
		}
		if found == nil {
			found = make(map[string][]string)
		}
		found[key] = values
	}
	if found == nil {
		return none
	}
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			delete(found, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return found
}

// withName returns headers with Mcp-Name, of a method for which only the server knows what it mirrors.
func withName(of map[string][]string, values []string) map[string][]string {
	all := map[string][]string{nameHeader: values}
	maps.Copy(all, of)
	return all
}

// checkRepeated compares the headers of a retry with those of the request that it
// resumes. The arguments of the two are equal, and the Handler has checked the headers of
// the first against them, so those of the retry are valid if they are equal. Headers that
// only the retry has mirror no argument.
func checkRepeated(first, retry map[string][]string) *mcp.Error {
	for _, key := range slices.Sorted(maps.Keys(first)) {
		if !slices.EqualFunc(first[key], retry[key], sameHeaderValue) {
			return mismatch("%s header is %q; the request that it retries had %q", key, retry[key], first[key])
		}
	}
	return nil
}

func sameHeaderValue(a, b string) bool {
	x, errA := mcp.DecodeHeaderValue(a)
	y, errB := mcp.DecodeHeaderValue(b)
	return errA == nil && errB == nil && x == y
}
