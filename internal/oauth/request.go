// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// message is one request, and what is needed to judge its response.
type message struct {
	method string
	url    string
	issuer string // the authorization server that it is for, or ""
	header http.Header
	body   string
	// secrets are the credentials in the request, which a server may repeat in its texts.
	secrets []mcp.Token
}

// reply is a response with its body.
type reply struct {
	to     message
	status int
	header http.Header
	body   []byte
}

// do sends a request and reads its response, which may be a redirect. A response with 429 or
// 5xx, and none, are a *TemporaryError; a body that is too long is a *CheckError.
func (c *Client) do(ctx context.Context, m message) (*reply, error) {
	u, err := parseURL(m.url)
	if err != nil {
		return nil, &CheckError{Check: CheckEndpoint, Got: m.url, Want: "an https URL: " + err.Error()}
	}
	if m.issuer != "" {
		if err := c.checkURL("a request", m.url); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(c.allowAnyAddress(ctx, u, m.issuer), requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, m.method, m.url, strings.NewReader(m.body))
	if err != nil {
		return nil, &CheckError{Check: CheckEndpoint, Got: m.url, Want: "a URL that a request can be sent to"}
	}
	if m.header != nil {
		req.Header = m.header
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, failure(m, err)
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	r := &reply{m, resp.StatusCode, resp.Header, body}
	switch {
	case isBusy(r.status):
		return nil, &TemporaryError{At: m.url, Status: r.status, RetryAfter: retryAfter(r.header, time.Now()), Sent: true}
	case err != nil:
		return nil, &TemporaryError{At: m.url, Sent: true, Err: Scrubbed(err, m.secrets...)}
	case len(body) > maxBody:
		return nil, &CheckError{Check: CheckDocument, At: m.url, Want: "at most " + strconv.Itoa(maxBody) + " bytes"}
	}
	return r, nil
}

// failure returns the error of a request without a response.
func failure(m message, err error) error {
	if refused, ok := errors.AsType[*CheckError](err); ok {
		refused.At = m.url
		return refused
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL, which At has
	}
	op, ok := errors.AsType[*net.OpError](err)
	return &TemporaryError{At: m.url, Sent: !ok || op.Op != "dial", Err: Scrubbed(err, m.secrets...)}
}

func isBusy(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = time.Hour

// retryAfter returns the delay of a Retry-After header (RFC 9110, section 10.2.3), or 0.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// isJSON reports whether a response has JSON, by its header.
func (r *reply) isJSON() bool {
	kind, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// scrub removes the credentials of the request from text of its server.
func (r *reply) scrub(text string) string { return without(r.to.secrets).Text(text) }

// Scrubbed returns an error without credentials in its text, which a server may have repeated.
func Scrubbed(err error, credentials ...mcp.Token) error {
	if text := without(credentials).Text(err.Error()); text != err.Error() {
		return &scrubbedError{text, err}
	}
	return err
}

// without returns what removes credentials, also as they are in a form.
func without(credentials []mcp.Token) *redact.Redactor {
	var secrets []string
	for _, c := range credentials {
		if !c.IsZero() {
			secrets = append(secrets, c.Reveal(), url.QueryEscape(c.Reveal()))
		}
	}
	return redact.Of(secrets...)
}

type scrubbedError struct {
	text string
	err  error
}

func (e *scrubbedError) Error() string { return e.text }

func (e *scrubbedError) Unwrap() error { return e.err }
