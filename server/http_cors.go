// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"slices"
	"strings"
)

// Pages of other origins: the Fetch standard, "CORS protocol".
//
// checkOrigin says who may call, and by it a page of an allowed origin could: its
// browser asks first, though, and shows it no answer that does not name it. What
// follows says to browsers what that check has said to us, and decides nothing.
//
// It is written here because github.com/rs/cors knows a list of headers or any
// header, and not Mcp-Param-* besides a list; and because it would decide on
// origins a second time, and answer a preflight of a foreign one with 204, where
// the specification wants 403.
//
// Two headers of the protocol are left out:
//
//   - Access-Control-Allow-Credentials is for what a browser adds by itself:
//     cookies, certificates, the passwords that it keeps. Nothing here goes by
//     those. A bearer token is a header that the page adds, and needs no leave
//     but that for the header; with the leave, a proxy's cookie before us would
//     make whoever gets a script into an allowed page its user.
//   - Access-Control-Allow-Private-Network belongs to a proposal that no browser
//     came to enforce. What took its place (Local Network Access, Chrome 142) asks
//     the user, and no answer of a server's counts for that.
const (
	// exposed are the headers of our answers that a page has to read: those that
	// it must send back, must wait by, or must find its authorization server by.
	exposed = sessionHeader + ", WWW-Authenticate, Retry-After"

	// acceptedHeaders are those of the protocol in all its revisions. "*" would not
	// include Authorization.
	acceptedHeaders = "Authorization, Content-Type, Accept, " + lastEventHeader + ", " +
		sessionHeader + ", " + versionHeader + ", " + methodHeader + ", " + nameHeader

	// preflightAge is what Chromium cuts any longer time to, in seconds.
	// An origin that is allowed no more gains nothing by it: each request is
	// checked again.
	preflightAge = "7200"
)

// share adds to an answer, whatever it will be, that the page which asked may see
// it. It reports false, and adds nothing of the kind, where the request comes from
// no page or from one that is not on the list: the page of our own origin needs no
// leave, and one that reaches loopback by another name than its own may be that of
// another user of this machine.
func (s *Server) allowOrigin(h http.Header, r *http.Request) bool {
	if len(s.cfg.AllowedOrigins) == 0 {
		return false
	}
	// Also where there is no Origin: a cache must not give that answer to a page.
	h.Add("Vary", "Origin")
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !slices.Contains(s.cfg.AllowedOrigins, origins[0]) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", exposed)
	return true
}

// isPreflight tells the question of a browser from an OPTIONS of anybody else's,
// which is a method like any that is not served.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// permit answers a preflight. It says what may be asked for and not whether this
// request would be granted: that takes credentials, which a preflight never has.
func answerPreflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Del("Access-Control-Expose-Headers") // of the answer that is yet to come
	h.Add("Vary", "Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	h.Set("Access-Control-Allow-Headers", acceptedHeaders+askedParams(r.Header.Values("Access-Control-Request-Headers")))
	h.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
}

// askedParams returns those that are asked for of the headers that mirror the
// arguments of tools: what their names are is known to the tools alone.
func askedParams(asked []string) string {
	var b strings.Builder
	for _, list := range asked {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if len(name) > len(paramPrefix) && strings.HasPrefix(name, paramPrefix) {
				b.WriteString(", " + name)
			}
		}
	}
	return b.String()
}
