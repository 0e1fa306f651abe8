// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"cmp"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// fewHeaders is the number of headers that need no allocation.
const fewHeaders = 16

// ownAgent is the User-Agent of net/http for requests without one.
const ownAgent = "Go-http-client/1.1"

// isOrdinary reports whether appendHead may be able to write the head of a request: a POST
// with a body and without an httptrace.
func isOrdinary(req *http.Request) bool {
	return req.Method == http.MethodPost && req.ContentLength > 0 && httptrace.ContextClientTrace(req.Context()) == nil
}

// appendHead appends the head of an ordinary request that check has accepted. It reports
// false if a part of the request must be changed or refused before it is written.
//
// The head is the same, byte by byte, as that of [http.Request.Write], which handles all
// requests and took a twentieth of the CPU of a small call.
func appendHead(b []byte, req *http.Request) (_ []byte, ok bool) {
	host, target := cmp.Or(req.Host, req.URL.Host), *req.URL
	target.RawQuery, target.ForceQuery = "", false // written without joining the strings
	path, query := target.RequestURI(), req.URL.RawQuery
	if !isHost(host) || hasControl(path) || hasControl(query) || strings.Contains(path, "\t") || strings.Contains(query, "\t") {
		return b, false
	}
	var room [fewHeaders]field
	fields, agent := room[:0], ownAgent
	for name, values := range req.Header {
		switch name {
		case "User-Agent":
			agent = ""
			if len(values) > 0 {
				agent = values[0]
			}
		case "Content-Length", "Host": // are fields of the request
		default:
			fields = append(fields, field{name, values})
		}
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })

	b = append(append(b, "POST "...), path...)
	if query != "" || req.URL.ForceQuery {
		b = append(append(b, '?'), query...)
	}
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", host)
	if agent != "" {
		b = appendField(b, "User-Agent", agent)
	}
	b = append(b, "Content-Length: "...)
	b = append(strconv.AppendInt(b, req.ContentLength, 10), "\r\n"...)
	for _, f := range fields {
		for _, value := range f.values {
			b = appendField(b, f.name, value)
		}
	}
	return append(b, "\r\n"...), true
}

// field is a header with its values.
type field struct {
	name   string
	values []string
}

func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, textproto.TrimString(value)...), "\r\n"...)
}

// isHost reports whether net/http writes a host unmodified. It omits parts of others.
func isHost(s string) bool { return consistsOf(s, ".-:[]_") }
