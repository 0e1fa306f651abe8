// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// subject names a certificate, in whose words there may be anything: they are the
// other side's, and stand in an error that a terminal shows.
func subject(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(" (%.100q)", c.Subject.String())
}

// dialReason says in words why there is no connection. It names no address: the
// cause does, for the log. The order matters, because net/http wraps the reasons
// into each other: a certificate that does not fit is also a failed verification,
// and a name that was not resolved in time is also a timeout.
func dialReason(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	certificate, isCertificate := errors.AsType[x509.CertificateInvalidError](err)
	host, isHost := errors.AsType[x509.HostnameError](err)
	authority, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	_, isVerify := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case isDNS && dns.IsNotFound:
		return "the name of its host is not known (DNS)"
	case isDNS:
		return "the name of its host could not be resolved (DNS)"
	case isCertificate && certificate.Reason == x509.Expired:
		return fmt.Sprintf("its certificate%s is not valid now: it is from %s to %s", subject(certificate.Cert),
			certificate.Cert.NotBefore.Format(time.DateOnly), certificate.Cert.NotAfter.Format(time.DateOnly))
	case isHost:
		return fmt.Sprintf("its certificate%s is for another host than %.100q", subject(host.Certificate), host.Host)
	case isAuthority:
		return fmt.Sprintf("its certificate%s is signed by an unknown authority", subject(authority.Cert))
	case isVerify || isCertificate:
		return "its certificate is not acceptable"
	case isRecord, errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "its host is unreachable"
	case errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return "no connection in time (limits.connect)"
	default:
		return "no connection"
	}
}

// isTimeout asks the error itself: the timeouts of net, of TLS and of HTTP/2 are
// types of their own that have only this in common.
func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// refusal is an HTTP answer that is not the beginning of an answer to a message.
type refusal struct {
	status     int
	mediaType  string
	head       []byte     // the beginning of the body
	rpc        *mcp.Error // the JSON-RPC error in the body, or nil
	retryAfter bool       // it says when to come again
	location   string     // where a redirect leads, in words
	id         mcp.ID     // of that error
}

// refusalHead is how much of a body is read to find out what it says.
const refusalHead = 64 << 10

// readRefusal reads what a body says instead of an answer, as far as there is a
// reason to look at it. A JSON-RPC error counts whatever the status and the type are:
// servers send it with 400, 404 and 500, and as text.
func (e *endpoint) readRefusal(resp *http.Response) *refusal {
	head, err := io.ReadAll(io.LimitReader(resp.Body, refusalHead))
	r := &refusal{status: resp.StatusCode, mediaType: mediaType(resp), head: head}
	r.retryAfter = resp.Header.Get("Retry-After") != ""
	if r.isRedirect() {
		r.location = redirectTarget(resp)
	}
	if r.mayBeOtherServer() {
		// This one among them, because its body has been read: the next attempt finds
		// the server, if it has moved.
		e.forgetConnections()
	}
	if err != nil {
		return r // what was read says enough
	}
	m, err := mcp.Parse(head, backendLimits())
	if err == nil && m.Kind == mcp.KindError {
		if r.rpc, err = m.WireError(); err != nil {
			r.rpc = nil
		}
		r.id = m.ID
	}
	return r
}

// disowns reports whether it is likely that somebody else than the server has
// answered, such as whoever has got the address of an instance that was replaced. A
// server that does not know a session or a path says 404, which is looked at where
// it is known what was asked for.
func (r *refusal) mayBeOtherServer() bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status == http.StatusMisdirectedRequest
}

// The types of what may carry messages.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// mediaType returns the type without its parameters, also where those are
// malformed: they change nothing about what is in the body.
func mediaType(resp *http.Response) string {
	said := resp.Header.Get("Content-Type")
	for _, t := range [...]string{typeJSON, typeEvents} {
		if rest, ok := strings.CutPrefix(said, t); ok && (rest == "" || rest[0] == ';') {
			return t
		}
	}
	t, _, err := mime.ParseMediaType(said)
	if err != nil && t == "" {
		return ""
	}
	return t
}

// isBeforeTheMessage reports whether the server has not looked at the message, so that
// the refusal tells nothing of its era.
func (r *refusal) isBeforeMessage() bool {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	default:
		return false
	}
}

// Error names status and type.
func (r *refusal) Error() string {
	text := fmt.Sprintf("HTTP status %d", r.status)
	if r.mediaType != "" {
		text += " with " + r.mediaType
	}
	return text
}

// outcome says what the status tells about the request's fate. A bare 503 tells
// nothing: proxies give it too when the server broke the connection while it
// worked. A server that does not want to work says when it will.
func (r *refusal) outcome() mcp.Outcome {
	switch r.status {
	case http.StatusServiceUnavailable:
		if r.retryAfter {
			return mcp.NotDispatched
		}
		return mcp.Unknown
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusTooManyRequests, http.StatusBadRequest:
		return mcp.NotDispatched
	default:
		// Whoever sends us elsewhere has not done it here, and we do not go.
		if r.isRedirect() {
			return mcp.NotDispatched
		}
		return mcp.Unknown
	}
}

// refused returns the refusal as the error of a call. A JSON-RPC error in the body
// is the server's own word and goes to the client as it is. Of anything else the
// client gets status and type; the body may hold anybody's data and goes, cut and
// without our credentials, to the log alone.
func (e *endpoint) refused(ctx context.Context, r *refusal) error {
	if r.rpc != nil && !r.isCutOff() {
		return r.rpc
	}
	e.log.LogAttrs(ctx, slog.LevelWarn, "backend answered with something else than MCP",
		slog.Int("status", r.status), slog.String("contentType", r.mediaType),
		slog.String("body", e.sanitize(r.head)))
	f := e.fault(mcp.CodeBackendFailed, r.outcome(), r, "%s", r.reason())
	if f.Outcome == mcp.NotDispatched {
		f.Code = mcp.CodeBackendUnavailable
	}
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable || r.isCutOff() {
		return &rejected{why: busy, err: f}
	}
	return f
}

// isCutOff reports whether the server did not wait for all of the message
// (RFC 9110, section 15.5.9). An error that it says it with names no request, because
// the server has not read which one it was: it is no answer to any.
func (r *refusal) isCutOff() bool {
	return r.status == http.StatusRequestTimeout && r.id.IsZero()
}

// reason is for people and models: it says what is wrong on whose side. The codes
// stay, because an operator looks for them.
func (r *refusal) reason() string {
	switch {
	case r.status == http.StatusUnauthorized:
		return "it wants other credentials (HTTP status 401)"
	case r.status == http.StatusForbidden:
		return "our credentials do not suffice (HTTP status 403)"
	case r.isRedirect():
		return fmt.Sprintf("it redirects to %s (HTTP status %d), which is not followed", r.location, r.status)
	case r.status < 300:
		return fmt.Sprintf("it answered with %s instead of a message (HTTP status %d)", typeOrNone(r.mediaType), r.status)
	default:
		return "it answered with " + r.Error()
	}
}

func (r *refusal) isRedirect() bool { return r.status >= 300 && r.status < 400 }

// leadsTo says where a redirect leads: scheme and host, which a client may read. A path
// and a query may hold credentials, so that of these it says only whether they differ.
func redirectTarget(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil || resp.Request == nil {
		return "nowhere"
	}
	from, origin := resp.Request.URL, fmt.Sprintf("%.200q", to.Scheme+"://"+to.Host)
	switch {
	case to.EscapedPath() == from.EscapedPath():
		return origin
	case to.Scheme == from.Scheme && to.Host == from.Host && to.EscapedPath() == from.EscapedPath()+"/":
		return "the same address with a slash at its end"
	default:
		return "another path of " + origin
	}
}

func typeOrNone(mediaType string) string {
	if mediaType == "" {
		return "something without a type"
	}
	return mediaType
}

// mayMeanSession reports whether a message may have been refused for want of its
// session. The specification's way to say so is 404 (2025-11-25,
// basic/transports, "Session Management"); this is that of known servers.
func (r *refusal) mayMeanSession() bool {
	return r.status == http.StatusBadRequest && namesLostSession(string(r.head))
}

// namesLostSession reports whether a text says that a session is unknown. The words
// are those of servers in the field. A tool may use them of a session of its
// own, so that they raise a doubt and decide nothing: the server is asked.
func namesLostSession(text string) bool {
	text = strings.ToLower(text)
	if !strings.Contains(text, "session") {
		return false
	}
	for _, word := range [...]string{"not found", "no valid", "invalid", "expired", "unknown", "terminated", "does not exist"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
