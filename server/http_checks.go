// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// check looks at one thing of an HTTP request and returns nil or its refusal.
type check func(s *Server, r *http.Request) *refusal

// entryChecks are made for every method, in this order, before anything else is
// looked at. Where a request comes from is judged first, so that a foreign page
// learns nothing of what is served here.
func entryChecks() []check {
	return []check{
		(*Server).checkHeaders,
		(*Server).checkHost,
		(*Server).checkOrigin,
		(*Server).checkMethod,
		(*Server).checkQuery,
	}
}

// guardChecks are the same for what stands beside the endpoint, and has methods
// of its own.
func guardChecks() []check {
	return []check{
		(*Server).checkHeaders,
		(*Server).checkHost,
		(*Server).checkOrigin,
		(*Server).checkQuery,
	}
}

// postChecks are made for a POST of a known principal, before its body is read.
func postChecks() []check {
	return []check{
		(*Server).checkContentType,
		(*Server).checkEncoding,
		(*Server).checkAcceptBoth,
		(*Server).checkLength,
	}
}

// checkHeaders says which limit a header exceeds. What net/http itself reads at
// most must be more than that, since it cuts the connection without a word of
// ours. A header that only a credential makes too long is one that nobody has.
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
			withHeader("WWW-Authenticate", bearer).withEvent(Unauthenticated, "limits.requestHeaders")
	default:
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "the header exceeds %s (limits.requestHeaders)", bytesText(int64(most))).
			withEvent(Limited, "limits.requestHeaders")
	}
}

// checkHost is what keeps the pages of other sites away whose name was made to
// point here: for these the Origin is the same as the Host, and only the Host
// is wrong.
func (s *Server) checkHost(r *http.Request) *refusal {
	if s.isOurHost(r) {
		return nil
	}
	return refuse(http.StatusForbidden, "host %s is not served here (allowedHosts)", escape(r.Host)).withEvent(ForeignHost, r.Host)
}

// isOurHost: loopback under any of its names, the very address that the
// connection was made to, and what is configured. A missing or broken Host is
// nobody's.
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

// splitHost cuts a host into its name and port; a name that cannot be one is "".
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

// isLoopback knows localhost by its name and all else by its address: what other
// names resolve to is for whoever owns them to change.
func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// isLocalAddress reports whether the host is the very address that the
// connection was made to. Nobody can make a name out of an address.
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

// checkOrigin: 2026-07-28, basic/transports/streamable-http, "Security &
// Endpoint". A request without the header does not come from a page. One with
// several comes from nothing that we know, and the second must not hide behind
// the first.
func (s *Server) checkOrigin(r *http.Request) *refusal {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 || len(origins) == 1 && s.isOurOrigin(origins[0], r.Host) {
		return nil
	}
	all := strings.Join(origins, ", ")
	return refuse(http.StatusForbidden, "origin %s may not call (allowedOrigins)", escape(all)).withEvent(ForeignOrigin, all)
}

// isOurOrigin compares texts, not what they may mean: an origin is allowed when
// it is written like one that is allowed, and everything that a parser would have
// to be kind to is foreign.
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
	// One's own page may call loopback by another of its names.
	name, port := splitHost(u.Host)
	ourName, ourPort := splitHost(host)
	return port == ourPort && isLoopback(name) && isLoopback(ourName)
}

// allowedMethods is what a 405 must name (RFC 9110, section 15.5.6).
const allowedMethods = "GET, POST, DELETE"

// checkMethod comes after the Origin, so that a foreign page cannot learn from a
// 405 that there is an endpoint here.
func (s *Server) checkMethod(r *http.Request) *refusal {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodDelete:
		return nil
	default:
		return refuse(http.StatusMethodNotAllowed, "method %s is not served here", escape(r.Method)).withHeader("Allow", allowedMethods)
	}
}

// checkQuery: what stands in a URL stands in logs, so that a token that came
// this way is refused even where none is needed.
func (s *Server) checkQuery(r *http.Request) *refusal {
	if hasToken(r.URL.RawQuery) {
		return refuse(http.StatusUnauthorized, "tokens in the query are not accepted").withHeader("WWW-Authenticate", bearer).withEvent(QueryToken, "")
	}
	return nil
}

// hasToken reports whether a query has a token in it (RFC 6750, section 2.3),
// however its name is written. A query that cannot be read in full is looked at
// as far as it can.
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

const bearer = "Bearer"

// authenticate returns who calls. It is asked anew for each request, whatever
// session the request names: a session is not authentication (2025-11-25,
// security best practices, "Session Hijacking"). An error that is no Denial may
// say anything, so that only the log sees its text.
func (s *Server) authenticate(r *http.Request) (string, *refusal) {
	if s.cfg.Authenticate == nil {
		return "", nil
	}
	principal, err := s.cfg.Authenticate(r)
	if err == nil {
		return principal, nil
	}
	d, ok := errors.AsType[*Denial](err)
	if !ok {
		s.log.InfoContext(r.Context(), "request refused", slog.String("reason", "not authenticated"),
			slog.String("remote", r.RemoteAddr), slog.Any("error", err))
		d = &Denial{Message: "not authenticated"}
	}
	status, challenge := d.Status, d.Challenge
	if status == 0 {
		status = http.StatusUnauthorized
	}
	if challenge == "" {
		challenge = bearer
	}
	return "", refuse(status, "%s", d.Message).withHeader("WWW-Authenticate", challenge).withEvent(Unauthenticated, d.Message)
}

// checkContentType lets nothing through that a page could send without asking
// first.
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

// checkEncoding: the limit of a body is one of bytes as they are read by us, and
// a compressed body is an attack on that.
func (s *Server) checkEncoding(r *http.Request) *refusal {
	enc := strings.Join(r.Header.Values("Content-Encoding"), ", ")
	if enc == "" || strings.EqualFold(enc, "identity") {
		return nil
	}
	return refuse(http.StatusUnsupportedMediaType, "request encodings are not accepted (content-encoding: %s)", escape(enc))
}

// checkAcceptBoth: "listing both application/json and text/event-stream as
// supported content types" (2025-11-25, basic/transports, "Sending Messages to the
// Server"). Which of the two an answer is cannot be known before it is there.
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

// accepts reads Accept headers as far as the protocol needs: which of the two
// types they list. Ranges count; a weight of 0 is not looked for.
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

// checkLength refuses what says itself that it is too long, before any of it is
// read. A length that is not announced, or is a lie, is met while reading.
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
