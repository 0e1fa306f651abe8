// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Guard returns a handler that passes to next only requests which may call the endpoint:
// the checks of Host, Origin, query and credentials are the same, and so are the
// refusals. It is for handlers beside the endpoint that are not public. All methods pass.
// A page of an allowed origin may call it too, but gets no CORS headers: it is allowed to
// use tools, not to monitor the gateway. [IdentityOf] returns the sender.
func (s *Server) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, no := s.admit(r, (*Server).checkHeaders, (*Server).checkHost, (*Server).checkOrigin, (*Server).checkQuery)
		if no == nil {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, from.identity)))
			return
		}
		p := s.newResponse(w, r)
		defer p.end()
		s.refuse(p, r, no, from)
	})
}

// GuardHost returns a handler that passes to next only requests with an accepted Host. It is
// for documents that are public and contain no secrets.
func (s *Server) GuardHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		no := s.check(r, (*Server).checkHeaders, (*Server).checkHost)
		if no == nil {
			next.ServeHTTP(w, r)
			return
		}
		p := s.newResponse(w, r)
		defer p.end()
		s.refuse(p, r, no, sender{})
	})
}

// A check examines one property of an HTTP request and returns nil or the refusal.
type check func(s *Server, r *http.Request) *refusal

// check makes the checks in this order and returns the first refusal, if any.
func (s *Server) check(r *http.Request, checks ...check) *refusal {
	for _, check := range checks {
		if no := check(s, r); no != nil {
			return no
		}
	}
	return nil
}

// admit makes the checks and returns the sender.
func (s *Server) admit(r *http.Request, checks ...check) (from sender, no *refusal) {
	if no := s.check(r, checks...); no != nil {
		return sender{}, no
	}
	from = sender{profile: ProfileOf(r.Context())}
	from.identity, no = s.authenticate(r)
	if from.identity != nil {
		from.principal = from.identity.Principal
	}
	if no == nil && !s.hasProfile(from.profile) {
		no = &refusal{hidden: true}
	}
	return from, no
}

// checkHeaders refuses a header that exceeds the limit, and names the limit. The limit of
// net/http must be higher, since net/http closes the connection without a JSON-RPC error. If
// only the credentials exceed the limit, the answer is 401: no valid credential is that
// long.
func (s *Server) checkHeaders(r *http.Request) *refusal {
	size, credential := len(r.Method)+len(r.RequestURI)+len(r.Host), 0
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	for _, v := range r.Header["Authorization"] {
		credential += len(v)
	}
	most := s.cfg.Limits.RequestHeaders
	switch {
	case size <= most:
		return nil
	case size-credential <= most:
		return refuse(http.StatusUnauthorized, "the credentials exceed %s (limits.requestHeaders)", bytesText(int64(most))).
			withHeader(challengeHeader, s.cfg.Challenge(r)).withEvent(Unauthenticated, "limits.requestHeaders")
	default:
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "the header exceeds %s (limits.requestHeaders)", bytesText(int64(most))).
			withEvent(Limited, "limits.requestHeaders")
	}
}

// checkHost protects against DNS rebinding: for a page of a host name that was made to
// resolve to this address, Origin and Host are equal and only the Host is wrong.
func (s *Server) checkHost(r *http.Request) *refusal {
	if s.isOurHost(r) {
		return nil
	}
	return refuse(http.StatusForbidden, "host %s is not allowed (allowedHosts)", escape(r.Host)).withEvent(ForeignHost, r.Host)
}

// isOurHost reports whether the host is loopback under any of its names, the address that
// the connection was made to, or configured. It reports false for a missing or malformed
// Host.
func (s *Server) isOurHost(r *http.Request) bool {
	name, port := splitHost(r.Host)
	if name == "" {
		return false
	}
	if isLoopback(name) || isLocalAddress(name, r) {
		return true
	}
	return slices.ContainsFunc(s.cfg.AllowedHosts, func(allowed string) bool {
		if allowed == "*" {
			return true
		}
		wantName, wantPort := splitHost(allowed)
		return strings.EqualFold(name, wantName) && (wantPort == "" || wantPort == port)
	})
}

// splitHost splits a host into name and port; the name is "" if the host is malformed.
func splitHost(host string) (name, port string) {
	if !strings.Contains(host, ":") {
		return host, ""
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1], ""
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return "", ""
	}
	return name, port
}

// isLoopback accepts localhost by name and everything else by address: other names
// resolve to what their owner chooses.
func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// isLocalAddress reports whether the host is the address that the connection was made to.
// A DNS name cannot pass for an address.
func isLocalAddress(name string, r *http.Request) bool {
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == ip.Unmap()
}

// checkOrigin: 2026-07-28, basic/transports/streamable-http, "Security & Endpoint". A
// request without the header does not come from a page. One with several comes from no
// known client, and the second value must not hide behind the first.
func (s *Server) checkOrigin(r *http.Request) *refusal {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 || len(origins) == 1 && s.isOurOrigin(origins[0], r.Host) {
		return nil
	}
	all := strings.Join(origins, ", ")
	return refuse(http.StatusForbidden, "origin %s is not allowed (allowedOrigins)", escape(all)).withEvent(ForeignOrigin, all)
}

// isOurOrigin compares texts, not meanings: an origin is allowed if it is written like an
// allowed one. Anything that only a lenient parser would accept is foreign.
func (s *Server) isOurOrigin(origin, host string) bool {
	if slices.Contains(s.cfg.AllowedOrigins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || origin != u.Scheme+"://"+u.Host {
		return false
	}
	if u.Host == host {
		return true
	}
	// Our own page may call loopback by another of its names.
	name, port := splitHost(u.Host)
	ourName, ourPort := splitHost(host)
	return port == ourPort && isLoopback(name) && isLoopback(ourName)
}

// allowedMethods is the Allow header of a 405 (RFC 9110, section 15.5.6).
const allowedMethods = "GET, POST, DELETE"

// checkMethod runs after checkOrigin, so that a foreign page cannot learn from a 405 that
// there is an endpoint here.
func (s *Server) checkMethod(r *http.Request) *refusal {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete:
		return nil
	default:
		return refuse(http.StatusMethodNotAllowed, "method %s is not allowed", escape(r.Method)).withHeader("Allow", allowedMethods)
	}
}

// checkQuery refuses a token in the URL even if no token is needed, because URLs are
// logged.
func (s *Server) checkQuery(r *http.Request) *refusal {
	if hasToken(r.URL.RawQuery) {
		return refuse(http.StatusUnauthorized, "tokens in the query are not accepted").withHeader(challengeHeader, s.cfg.Challenge(r)).withEvent(QueryToken, "")
	}
	return nil
}

// hasToken reports whether a query contains a token (RFC 6750, section 2.3), however its
// name is written. A malformed query is examined as far as it can be parsed.
func hasToken(query string) bool {
	if query == "" {
		return false
	}
	values, _ := url.ParseQuery(query)
	for name := range values {
		if strings.EqualFold(name, "access_token") {
			return true
		}
	}
	return strings.Contains(query, "access_token=")
}

const (
	challengeHeader = "WWW-Authenticate"
	bearer          = "Bearer"
)

// authenticate returns the identity of the sender, or nil without authentication. It runs for
// each request, whichever session the request names: a session is not authentication
// (2025-11-25, security best practices, "Session Hijacking"). The text of an error that is
// not a Denial goes to the log only, as it may contain anything.
func (s *Server) authenticate(r *http.Request) (*mcp.Identity, *refusal) {
	if identity, ok := r.Context().Value(senderKey{}).(*mcp.Identity); ok {
		return identity, nil
	}
	if s.cfg.Authenticate == nil {
		return nil, nil
	}
	identity, err := s.cfg.Authenticate(r)
	if err == nil {
		return identity, nil
	}
	d, ok := errors.AsType[*Denial](err)
	if !ok {
		s.log.InfoContext(r.Context(), "request refused", slog.String("reason", "not authenticated"),
			slog.String("remote", r.RemoteAddr), slog.Any("error", err))
		d = &Denial{Message: "not authenticated"}
	}
	if d.Status == http.StatusNotFound {
		return identity, (&refusal{hidden: true}).withEvent(ForeignProfile, d.Message)
	}
	if d.Status == http.StatusServiceUnavailable {
		return nil, refuse(d.Status, "%s", d.Message).withHeader("Retry-After", seconds(d.RetryAfter))
	}
	return nil, refuse(cmp.Or(d.Status, http.StatusUnauthorized), "%s", d.Message).
		withHeader(challengeHeader, cmp.Or(d.Challenge, bearer)).withEvent(Unauthenticated, d.Message)
}

// checkContentType accepts only a type that a page cannot send without a preflight.
func (s *Server) checkContentType(r *http.Request) *refusal {
	values := r.Header.Values("Content-Type")
	if len(values) == 1 {
		if values[0] == jsonType {
			return nil
		}
		if media, _, err := mime.ParseMediaType(values[0]); err == nil && media == jsonType {
			return nil
		}
	}
	return refuse(http.StatusUnsupportedMediaType, "content type must be application/json, not %s", escape(strings.Join(values, ", "))).
		withHeader("Accept-Post", jsonType)
}

// checkEncoding refuses compressed bodies: the limit of a body is in bytes as received,
// and a compressed body could expand beyond it.
func (s *Server) checkEncoding(r *http.Request) *refusal {
	enc := strings.Join(r.Header.Values("Content-Encoding"), ", ")
	if enc == "" || strings.EqualFold(enc, "identity") {
		return nil
	}
	return refuse(http.StatusUnsupportedMediaType, "request encodings are not accepted (content-encoding: %s)", escape(enc))
}

// checkAcceptBoth: "listing both application/json and text/event-stream as supported
// content types" (2025-11-25, basic/transports, "Sending Messages to the Server"). Which
// of the two a response uses is not known before it is there.
func (s *Server) checkAcceptBoth(r *http.Request) *refusal {
	json, sse := accepts(r.Header.Values("Accept"))
	if json && sse {
		return nil
	}
	return refuse(http.StatusNotAcceptable, "accept must list both application/json and text/event-stream")
}

// checkAcceptStream is the same for a GET, which is answered with a stream only.
func (s *Server) checkAcceptStream(r *http.Request) *refusal {
	if _, sse := accepts(r.Header.Values("Accept")); sse {
		return nil
	}
	return refuse(http.StatusNotAcceptable, "accept must list text/event-stream")
}

// accepts reports which of the two types the Accept headers list. Ranges count; a weight
// of 0 is ignored.
func accepts(values []string) (json, sse bool) {
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			media, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "*/*":
				return true, true
			case jsonType, "application/*":
				json = true
			case streamType, "text/*":
				sse = true
			}
		}
	}
	return json, sse
}

// checkLength refuses a request with a Content-Length beyond the limit, before the body
// is read. A missing or false length is caught while reading.
func (s *Server) checkLength(r *http.Request) *refusal {
	if r.ContentLength > s.cfg.Limits.RequestBody {
		return s.refuseLength()
	}
	return nil
}

func (s *Server) refuseLength() *refusal {
	return refuse(http.StatusRequestEntityTooLarge, "body exceeds %s (limits.requestBody)", bytesText(s.cfg.Limits.RequestBody)).
		withEvent(Limited, "limits.requestBody")
}

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
