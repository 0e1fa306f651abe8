// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

func TestNamesLostSession(t *testing.T) {
	tests := map[string]bool{
		"Session not found": true, "Bad Request: No valid session ID provided": true, "invalid or expired session": true,
		"unknown session": true, "the session was terminated": true, "not found": false, "session": false, "": false,
		"a database session is needed": false,
	}
	for text, want := range tests {
		if got := NamesLostSession(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestDialReasonTLS(t *testing.T) {
	expired := &x509.Certificate{
		Subject: pkix.Name{CommonName: "a\x1b[2J"}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
	}
	early := &x509.Certificate{NotBefore: time.Now().Add(time.Hour), NotAfter: time.Now().Add(2 * time.Hour)}
	clock := &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: early, Reason: x509.Expired}}
	if reason, got := dialReason(clock); reason != code.Clock || !strings.Contains(got, "the clock of this machine has 20") {
		t.Errorf("a certificate of the future: %s %q", reason, got)
	}
	tests := map[string]error{
		`("CN=a\x1b[2J") is not valid now: it is from 1970-01-01 to 2026-01-02`: &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: expired, Reason: x509.Expired}},
		`for another host than "x"`:              x509.HostnameError{Certificate: expired, Host: "x"},
		"unknown authority":                      &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"not acceptable":                         &tls.CertificateVerificationError{Err: errors.New("odd")},
		"does not speak TLS":                     tls.RecordHeaderError{},
		"it does not speak TLS":                  http.ErrSchemeMismatch,
		"no connection in time (limits.connect)": context.DeadlineExceeded,
	}
	for want, err := range tests {
		wantCode := code.NetTLS
		if errors.Is(err, context.DeadlineExceeded) {
			wantCode = code.NetTimeout
		}
		if reason, got := dialReason(fmt.Errorf("dial: %w", err)); !strings.Contains(got, want) || reason != wantCode {
			t.Errorf("%v: %s %q, want %s %q", err, reason, got, wantCode, want)
		}
	}
}

// A dial that fails before TLS has the code of what is missing.
func TestDialReasonCodes(t *testing.T) {
	for want, errs := range map[string][]error{
		code.NetDNS:     {&net.DNSError{IsNotFound: true}, &net.DNSError{IsTimeout: true}},
		code.NetRefused: {syscall.ECONNREFUSED, syscall.EHOSTUNREACH, errors.New("odd")},
		code.NetTimeout: {os.ErrDeadlineExceeded},
		code.NetProxy:   {&net.OpError{Op: "proxyconnect", Err: syscall.ECONNREFUSED}},
	} {
		for _, err := range errs {
			got, text := dialReason(&net.OpError{Op: "dial", Err: err})
			if isProxy := strings.Contains(text, "to the proxy"); got != want || isProxy != (want == code.NetProxy) {
				t.Errorf("%v: %s %q, want %s", err, got, text, want)
			}
		}
	}
}

// Each response that is not MCP has the code of its cause.
func TestRefusalCodes(t *testing.T) {
	for _, tt := range []struct {
		status       int
		header       http.Header
		code, reason string
	}{
		{401, http.Header{"Www-Authenticate": {"Basic", `Bearer error="invalid_token", resource_metadata="https://auth.example.com/.well-known/x?secret=1"`}},
			code.AuthSignIn, `it requires a sign-in, for which it names "https://auth.example.com" (HTTP status 401)`},
		{401, http.Header{"Www-Authenticate": {`Bearer resource_metadata=nowhere`}}, code.AuthWrong, "rejected our credentials"},
		{401, nil, code.AuthWrong, "rejected our credentials"},
		{403, nil, code.AuthScope, "not sufficient"},
		{429, nil, code.AuthLater, "HTTP status 429"},
		{503, http.Header{"Retry-After": {"5"}}, code.AuthLater, "HTTP status 503"},
		{503, nil, code.NetStatus, "HTTP status 503"},
		{404, nil, code.NetStatus, "HTTP status 404"},
		{307, http.Header{"Location": {"https://elsewhere.example/"}}, code.NetRedirect, "redirects"},
		{200, nil, code.TalkNotMCP, "instead of a message"},
	} {
		e := new(Endpoint)
		r := e.ReadRefusal(&http.Response{StatusCode: tt.status, Header: tt.header, Body: http.NoBody})
		if got, text := r.code(), r.reason(); got != tt.code || !strings.Contains(text, tt.reason) {
			t.Errorf("%d %v: %s %q, want %s %q", tt.status, tt.header, got, text, tt.code, tt.reason)
		}
	}
}

// The same refusal is logged once a minute, with the number of those in between.
func TestRefusalsAreLoggedOnceAMinute(t *testing.T) {
	var l refusalLog
	now := time.Unix(1000, 0)
	page := &Refusal{Status: 200, mediaType: "text/html"}
	for i, tt := range []struct {
		r       *Refusal
		after   time.Duration
		skipped int
		ok      bool
	}{
		{page, 0, 0, true},
		{page, time.Second, 0, false},
		{page, refusalInterval - 1, 0, false},
		{page, refusalInterval, 2, true},
		{page, refusalInterval + 1, 0, false},
		{&Refusal{Status: 502}, refusalInterval + 2, 1, true},
		{page, refusalInterval + 3, 0, true},
	} {
		if skipped, ok := l.admit(tt.r, now.Add(tt.after)); skipped != tt.skipped || ok != tt.ok {
			t.Errorf("%d: %d, %v; want %d, %v", i, skipped, ok, tt.skipped, tt.ok)
		}
	}
}
