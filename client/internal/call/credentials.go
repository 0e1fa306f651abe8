// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Credentials has the methods of client.Credentials, which documents them.
type Credentials interface {
	PerPrincipal() bool
	For(ctx context.Context, req *mcp.Request) (Credential, error)
	Refused(ctx context.Context, req *mcp.Request, sent Credential, r Refusal) error
}

// Credential has the fields of client.Credential, which documents them.
type Credential struct {
	Header     map[string]mcp.Token
	Origin     string
	Generation uint64
}

// Refusal has the fields of client.Refusal, which documents them.
type Refusal struct {
	Status     int
	Challenges []string
}

// ErrRefused is client.ErrRefused.
var ErrRefused = errors.New("the server refused the credential")

// errOrigin is the error of a credential that is for another origin.
var errOrigin = errors.New("the credential is for another origin")

// IsPerPrincipal reports whether the credentials of two principals differ, so that they must
// not share a session.
func (s *Setup) IsPerPrincipal() bool { return s.Credentials != nil && s.Credentials.PerPrincipal() }

// OnBehalfOf returns a request of the gateway itself with the credential of the sender of
// like. If like is nil, it is the gateway's own.
func (s *Setup) OnBehalfOf(like *mcp.Request, method string) *mcp.Request {
	own := &mcp.Request{Method: method, Client: s.Self()}
	if like != nil {
		own.Principal, own.Identity = like.Principal, like.Identity
	}
	return own
}

// Unauthorized returns the error of a request that Credentials have ended with err. It was
// not sent, or refused unprocessed.
func (s *Setup) Unauthorized(ctx context.Context, err error) error {
	_, isError := errors.AsType[*mcp.Error](err)
	_, isFault := errors.AsType[*mcp.Fault](err)
	switch {
	case ctx.Err() != nil:
		err = s.GivenUp(ctx, mcp.NotDispatched)
	case !isError && !isFault:
		err = Because(code.AuthBackend, s.Unavailable(err, "%s", Sanitize(s.Secrets.Text(err.Error()))))
	}
	return &Rejected{Why: NoCredential, Err: err}
}

// AddCredential returns the header with the fields of a credential for a request to origin.
// It does not modify header.
func (s *Setup) AddCredential(header http.Header, c Credential, origin string) (http.Header, error) {
	if len(c.Header) == 0 {
		return header, nil
	}
	if c.Origin == "" || c.Origin != origin {
		return nil, Because(code.AuthBackend, s.Unavailable(errOrigin, "its credential is for another origin (%.200q)", c.Origin))
	}
	all := make(http.Header, len(header)+len(c.Header))
	maps.Copy(all, header)
	for name, value := range c.Header {
		name = http.CanonicalHeaderKey(name)
		if err := CheckCredentialField(name); err != nil {
			return nil, Because(code.AuthBackend, s.Unavailable(err, "its credential is not usable: %v", err))
		}
		text := value.Reveal()
		if !isFieldValue(text) {
			return nil, Because(code.AuthBackend, s.Unavailable(nil, "its credential is not usable: the value of %s has bytes that a header must not have", name))
		}
		s.recent.AddHeader(name, text)
		all[name] = []string{text}
	}
	return all, nil
}

// CheckCredentialField is client.CheckCredentialField for a canonical name.
func CheckCredentialField(name string) error {
	if !isToken(name) {
		return fmt.Errorf("%.100q is not the name of a header", name)
	}
	switch name {
	case "Accept", "Accept-Encoding", "Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
		"Keep-Alive", "Last-Event-Id", "Origin", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return fmt.Errorf("the header %s is that of HTTP", name)
	}
	if strings.HasPrefix(name, "Mcp-") {
		return fmt.Errorf("the header %s is that of the protocol", name)
	}
	return nil
}

// isFieldValue reports whether a text may be the value of a field (RFC 9110, section 5.5).
func isFieldValue(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return s != ""
}

// OriginOf is client.OriginOf.
func OriginOf(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", errNoOrigin // the error of Parse has the URL
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if host == "" || scheme != "http" && scheme != "https" {
		return "", errNoOrigin
	}
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return scheme + "://" + host, nil
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

var errNoOrigin = errors.New("a URL without an origin: http or https, and a host, are necessary")
