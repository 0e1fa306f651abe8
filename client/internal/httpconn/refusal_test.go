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
	"net/http"
	"strings"
	"testing"
	"time"
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
		if got := dialReason(fmt.Errorf("dial: %w", err)); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
