// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/http1"
)

// newTransport returns the transport of one client, so that idle connections to one
// instance of a backend can be closed without affecting others. It does not limit the
// time of a response: that is the call's deadline.
func newTransport(s *call.Setup) *http1.Transport {
	dialer := &net.Dialer{Timeout: s.Connect, KeepAlive: 15 * time.Second, Control: growReceiveBuffer}
	return &http1.Transport{
		Dial:                dialer.DialContext,
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: s.Connect,
		WriteTimeout:        s.Write,
		MaxHeaderBytes:      1 << 20, // far above what servers send
		MaxIdle:             64,
		IdleTimeout:         90 * time.Second,
	}
}

// isHeaderOverflow reports whether a response was rejected because of the size of its
// headers. net/http identifies that error only by its text, in either version of HTTP.
func isHeaderOverflow(err error) bool {
	if errors.Is(err, http1.ErrHeaderTooLong) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") || strings.Contains(text, "response header list larger than")
}

// isConnError reports whether err concerns an existing connection, rather than dialing
// one. It only chooses the error text, for requests that were not sent.
func isConnError(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "read" || op.Op == "write") || errors.Is(err, io.EOF)
}

// dialReason returns the code of why there is no connection, and a text without an
// address; the cause contains that, for the log. The order matters, because net/http nests the reasons: a
// certificate for another host is also a failed verification, and a name that was not
// resolved in time is also a timeout.
func dialReason(err error) (reason, text string) {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	certificate, isCertificate := errors.AsType[x509.CertificateInvalidError](err)
	host, isHost := errors.AsType[x509.HostnameError](err)
	authority, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	_, isVerify := errors.AsType[*tls.CertificateVerificationError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	for isOp && op.Op != "proxyconnect" {
		op, isOp = errors.AsType[*net.OpError](op.Err)
	}
	switch {
	case isOp:
		_, text = dialReason(op.Err)
		return code.NetProxy, "no connection to the proxy (HTTPS_PROXY, HTTP_PROXY): " + text
	case isDNS && dns.IsNotFound:
		return code.NetDNS, "the name of its host is not known (DNS)"
	case isDNS:
		return code.NetDNS, "the name of its host could not be resolved (DNS)"
	case isCertificate && certificate.Reason == x509.Expired && time.Now().Before(certificate.Cert.NotBefore):
		return code.Clock, fmt.Sprintf("its certificate%s is valid from %s on, and the clock of this machine has %s", subject(certificate.Cert),
			certificate.Cert.NotBefore.UTC().Format(time.DateTime), time.Now().UTC().Format(time.DateTime))
	case isCertificate && certificate.Reason == x509.Expired:
		return code.NetTLS, fmt.Sprintf("its certificate%s is not valid now: it is from %s to %s", subject(certificate.Cert),
			certificate.Cert.NotBefore.Format(time.DateOnly), certificate.Cert.NotAfter.Format(time.DateOnly))
	case isHost:
		return code.NetTLS, fmt.Sprintf("its certificate%s is for another host than %.100q", subject(host.Certificate), host.Host)
	case isAuthority:
		return code.NetTLS, fmt.Sprintf("its certificate%s is signed by an unknown authority", subject(authority.Cert))
	case isVerify || isCertificate:
		return code.NetTLS, "its certificate is not acceptable"
	case isRecord, errors.Is(err, http.ErrSchemeMismatch):
		return code.NetTLS, "it does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return code.NetRefused, "connection refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return code.NetRefused, "its host is unreachable"
	case errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return code.NetTimeout, "no connection in time (limits.connect)"
	default:
		return code.NetRefused, "no connection"
	}
}

// isTimeout uses the net.Error interface, the only thing that timeouts of net, TLS and
// HTTP/2 have in common.
func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// subject returns the name in a certificate, quoted: it is foreign text, and errors are
// shown on terminals.
func subject(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(" (%.100q)", c.Subject.String())
}
