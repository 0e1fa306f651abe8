// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"slices"
	"strings"
)

// Cross-origin requests: the Fetch standard, "CORS protocol".
//
// checkOrigin decides which pages may call. The browser of an allowed page still sends a
// preflight first, and hides any response that does not name its origin. The code below
// reports the decision of checkOrigin to browsers; it decides nothing itself.
//
// github.com/rs/cors is not used: it accepts a list of headers or any header, and not
// Mcp-Param-* besides a list. It would also check origins a second time, and answer a
// preflight of a foreign origin with 204 where the specification requires 403.
//
// Two headers of the protocol are left out:
//
//   - Access-Control-Allow-Credentials is for what a browser adds by itself: cookies,
//     certificates, stored passwords. Nothing here depends on those. A bearer token is
//     a header that the page adds, and needs only that header to be allowed. With this
//     header a cookie of a proxy in front of us would let any script in an allowed page
//     act as the user.
//   - Access-Control-Allow-Private-Network belongs to a proposal that no browser came
//     to enforce. Its successor (Local Network Access, Chrome 142) asks the user, and
//     takes no header of the server into account.
const (
	// exposed are the response headers that a page must read: to send them back, to wait,
	// or to find its authorization server.
	exposed = sessionHeader + ", WWW-Authenticate, Retry-After"

	// acceptedHeaders are those of the protocol in all its revisions. "*" would not
	// include Authorization.
	acceptedHeaders = "Authorization, Content-Type, Accept, " + lastEventHeader + ", " +
		sessionHeader + ", " + versionHeader + ", " + methodHeader + ", " + nameHeader

	// preflightAge is in seconds, and the most that Chromium accepts. An origin that is
	// no longer allowed gains nothing from it: each request is checked again.
	preflightAge = "7200"
)

// allowOrigin adds the headers that let the calling page read the response. It reports
// false, and adds only Vary, if the request does not come from a page or its origin is
// not listed. The page of our own origin needs no permission. A page that reaches
// loopback under another name may belong to another user of this machine.
func (s *Server) allowOrigin(h http.Header, r *http.Request) bool {
	if len(s.cfg.AllowedOrigins) == 0 {
		return false
	}
	// Also without an Origin: a cache must not return this response to a page.
	h.Add("Vary", "Origin")
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !slices.Contains(s.cfg.AllowedOrigins, origins[0]) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", exposed)
	return true
}

// isPreflight distinguishes a CORS preflight from any other OPTIONS, which is a method
// that is not served.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight answers a preflight. It lists what may be requested, not whether this
// request would be allowed: that takes credentials, which a preflight never has.
func answerPreflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Del("Access-Control-Expose-Headers") // only for the response that follows
	h.Add("Vary", "Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	h.Set("Access-Control-Allow-Headers", acceptedHeaders+askedParams(r.Header.Values("Access-Control-Request-Headers")))
	h.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
}

// askedParams returns the requested headers that mirror tool arguments. Their names are
// known to the tools only.
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
