// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Refusal is an HTTP response without a response to the message.
type Refusal struct {
	Status     int
	mediaType  string
	head       []byte     // the beginning of the body
	RPC        *mcp.Error // the JSON-RPC error in the body, or nil
	retryAfter bool       // it has a Retry-After header
	signIn     string     // the origin of its protected-resource metadata, quoted, or ""
	location   string     // where a redirect leads, as text
	id         mcp.ID     // of rpc
}

// refusalHead is how much of a refusal's body is read.
const refusalHead = 64 << 10

// ReadRefusal reads a response that carries no messages. A JSON-RPC error in it counts
// whatever the status and media type are: servers send it with 400, 404 and 500, and as
// text.
func (e *Endpoint) ReadRefusal(resp *http.Response) *Refusal {
	head, err := io.ReadAll(io.LimitReader(resp.Body, refusalHead))
	r := &Refusal{Status: resp.StatusCode, mediaType: MediaType(resp), head: head, retryAfter: resp.Header.Get("Retry-After") != ""}
	if r.isRedirect() {
		r.location = redirectTarget(resp)
	}
	if r.Status == http.StatusUnauthorized {
		r.signIn = metadataOrigin(resp.Header.Values("WWW-Authenticate"))
	}
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest:
		// Another server may have responded, for example one that has taken over the
		// address of a replaced instance. The next attempt finds the server, if it has
		// moved: this connection is closed too, because its body was read. Status 404
		// may also mean an unknown session or path; callers that know the request
		// check it.
		e.ForgetConnections()
	}
	if err != nil {
		return r // what was read is sufficient
	}
	m, err := mcp.Parse(head, call.BackendLimits())
	if err == nil && m.Kind == mcp.KindError {
		if r.RPC, err = m.WireError(); err != nil {
			r.RPC = nil
		}
		r.id = m.ID
	}
	return r
}

// IsBeforeMessage reports whether the server has not processed the message, so that the
// refusal does not indicate its era.
func (r *Refusal) IsBeforeMessage() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	default:
		return false
	}
}

// IsServerRefusal marks the cause of a fault that is the server's response.
func (r *Refusal) IsServerRefusal() {}

// Error returns the status and the media type.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("HTTP status %d", r.Status)
	if r.mediaType != "" {
		text += " with " + r.mediaType
	}
	return text
}

// outcome returns what the status means for the request. A bare 503 means nothing:
// proxies also send it if the server closed the connection during the work. A server
// that declines work sends Retry-After.
func (r *Refusal) outcome() mcp.Outcome {
	switch r.Status {
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
		// A server that redirects has not processed the request, and redirects are not
		// followed.
		if r.isRedirect() {
			return mcp.NotDispatched
		}
		return mcp.Unknown
	}
}

// Refused returns the refusal as the error of a call. A JSON-RPC error in the body is
// forwarded unmodified. In any other case the client gets the status and the media
// type. The body may contain any data, so it is only logged, cut and without
// credentials.
func (e *Endpoint) Refused(ctx context.Context, r *Refusal) error {
	if r.RPC != nil && !r.isCutOff() {
		return r.RPC
	}
	if skipped, ok := e.refusals.admit(r, time.Now()); ok {
		// Not a warning: if it makes the backend unreachable, there is one about that.
		e.Log.LogAttrs(ctx, slog.LevelInfo, "backend sent an HTTP response that is not MCP",
			slog.String("code", r.code()), slog.Int("status", r.Status), slog.String("contentType", r.mediaType),
			slog.String("body", e.Sanitize(r.head)), slog.Int("notLogged", skipped))
	}
	f := call.Because(r.code(), e.Fault(mcp.CodeBackendFailed, r.outcome(), r, "%s", r.reason()))
	if f.Outcome == mcp.NotDispatched {
		f.Code = mcp.CodeBackendUnavailable
	}
	if r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable || r.isCutOff() {
		return &call.Rejected{Why: call.Busy, Err: f}
	}
	return f
}

// refusalInterval is the time between two log records of the same refusal.
const refusalInterval = time.Minute

// refusalLog bounds the log records of refusals. The zero value is ready.
type refusalLog struct {
	mu        sync.Mutex
	at        time.Time // of the last record
	status    int
	mediaType string
	skipped   int // how many were not logged since
}

// admit reports whether a refusal is logged, and how many were not since the last record: it
// is if it differs from the last one, or a minute has passed.
func (l *refusalLog) admit(r *Refusal, now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status == r.Status && l.mediaType == r.mediaType && now.Sub(l.at) < refusalInterval {
		l.skipped++
		return 0, false
	}
	skipped = l.skipped
	l.at, l.status, l.mediaType, l.skipped = now, r.Status, r.mediaType, 0
	return skipped, true
}

// isCutOff reports whether the server stopped waiting for the rest of the message (RFC
// 9110, section 15.5.9). The error in the body names no request, because the server has
// not read its id. So it is the response to none.
func (r *Refusal) isCutOff() bool {
	return r.Status == http.StatusRequestTimeout && r.id.IsZero()
}

// reason describes the refusal for people and models: what is wrong, and where. It
// includes the status code for operators.
func (r *Refusal) reason() string {
	switch {
	case r.signIn != "":
		return fmt.Sprintf("it requires a sign-in, for which it names %s (HTTP status 401)", r.signIn)
	case r.Status == http.StatusUnauthorized:
		return "it rejected our credentials, or requires some (HTTP status 401)"
	case r.Status == http.StatusForbidden:
		return "our credentials are not sufficient (HTTP status 403)"
	case r.isRedirect():
		return fmt.Sprintf("it redirects to %s (HTTP status %d), which is not followed", r.location, r.Status)
	case r.Status < 300:
		return fmt.Sprintf("it answered with %s instead of a message (HTTP status %d)", TypeOrNone(r.mediaType), r.Status)
	default:
		return "it answered with " + r.Error()
	}
}

// code returns the code of the refusal.
func (r *Refusal) code() string {
	switch {
	case r.signIn != "":
		return code.AuthSignIn
	case r.Status == http.StatusUnauthorized:
		return code.AuthWrong
	case r.Status == http.StatusForbidden:
		return code.AuthScope
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable && r.retryAfter:
		return code.AuthLater
	case r.isRedirect():
		return code.NetRedirect
	case r.Status < 300:
		return code.TalkNotMCP
	default:
		return code.NetStatus
	}
}

// metadataParameter is the parameter of a challenge that names the protected-resource
// metadata (RFC 9728, section 5.1).
var metadataParameter = regexp.MustCompile(`(?i)\bresource_metadata\s*=\s*"?([^",\s]+)`)

// metadataOrigin returns the scheme and host of the protected-resource metadata that the
// challenges name, quoted, or "". Path and query may contain credentials.
func metadataOrigin(challenges []string) string {
	for _, challenge := range challenges {
		m := metadataParameter.FindStringSubmatch(challenge)
		if m == nil {
			continue
		}
		if u, err := url.Parse(m[1]); err == nil && u.Host != "" {
			return fmt.Sprintf("%.200q", u.Scheme+"://"+u.Host)
		}
	}
	return ""
}

func (r *Refusal) isRedirect() bool { return r.Status >= 300 && r.Status < 400 }

// redirectTarget describes where a redirect leads, by scheme and host. Path and query
// may contain credentials, so it reports only whether they differ.
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
		return "the same URL with a trailing slash"
	default:
		return "another path of " + origin
	}
}

// TypeOrNone describes a media type.
func TypeOrNone(mediaType string) string {
	if mediaType == "" {
		return "a body without a media type"
	}
	return mediaType
}

// MayMeanSession reports whether the message may have been refused because of its
// session. The specified status for that is 404 (2025-11-25, basic/transports, "Session
// Management"); some servers send 400.
func (r *Refusal) MayMeanSession() bool {
	return r.Status == http.StatusBadRequest && NamesLostSession(string(r.head))
}

// NamesLostSession reports whether a text reports an unknown session, in the words of
// known servers. A tool may use them about a session of its own, so they decide
// nothing: the server is asked.
func NamesLostSession(text string) bool {
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
