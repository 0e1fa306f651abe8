// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"net/url"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// certificatePrefix is the beginning of the principals of client certificates.
const certificatePrefix = "certificate:"

// verifyCertificate returns the identity of the client certificate of a connection, which TLS
// has verified when the connection began.
func (c *Chain) verifyCertificate(r *http.Request) (*mcp.Identity, error) {
	begins, ends := validity(r.TLS.VerifiedChains)
	switch now := time.Now(); {
	case now.Before(begins):
		return nil, c.refuse(r, nil, notYetValid, "the client certificate is not valid yet")
	case !now.Before(ends):
		return nil, c.refuse(r, nil, expired, "the client certificate has expired")
	}
	members := certificateMembers(r.TLS.VerifiedChains[0][0])
	name, err := c.certificates.Name(members)
	if err != nil {
		return nil, c.refuse(r, nil, malformed, "the client certificate has no name that the gateway can use")
	}
	return &mcp.Identity{Principal: certificatePrefix + name, Via: mcp.ViaCertificate, Claims: members, Expires: ends}, nil
}

// validity returns when the best of the chains is valid: from the last beginning to the first
// end of its certificates.
func validity(chains [][]*x509.Certificate) (begins, ends time.Time) {
	for _, chain := range chains {
		from, to := chain[0].NotBefore, chain[0].NotAfter
		for _, cert := range chain[1:] {
			if cert.NotBefore.After(from) {
				from = cert.NotBefore
			}
			to = earliest(to, cert.NotAfter)
		}
		if to.After(ends) {
			begins, ends = from, to
		}
	}
	return begins, ends
}

// certificateMembers returns what an expression reads of a certificate: subject, the names dns
// and uris, and fingerprint, the SHA-256 of the certificate in hexadecimal.
func certificateMembers(cert *x509.Certificate) map[string]any {
	sum := sha256.Sum256(cert.Raw)
	return map[string]any{
		"subject": cert.Subject.String(), "fingerprint": hex.EncodeToString(sum[:]),
		"dns": list(cert.DNSNames, func(name string) string { return name }), "uris": list(cert.URIs, (*url.URL).String),
	}
}

func list[T any](values []T, text func(T) string) []any {
	out := make([]any, 0, len(values))
	for _, v := range values {
		out = append(out, text(v))
	}
	return out
}
