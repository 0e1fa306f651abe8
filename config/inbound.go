// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/principal"
)

// TLS is the certificate of the listener. The files are read again when they have changed.
type TLS struct {
	// Certificate and Key are files in PEM: a certificate with its intermediate ones, and its
	// private key.
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	// ClientCAs is a file in PEM with the authorities that client certificates have to be of,
	// or "".
	ClientCAs string `json:"clientCAs"`
}

// Introspect is how the gateway asks an issuer about tokens that are not JWTs.
type Introspect struct {
	// ClientID is the gateway's client at the issuer, and ClientSecret or ClientKey its
	// credential. ClientKey is a private key in PEM, or as a JWK.
	ClientID     string `json:"clientId"`
	ClientSecret Secret `json:"clientSecret"`
	ClientKey    Secret `json:"clientKey"`
}

// Certificates is how client certificates identify callers.
type Certificates struct {
	// Principal is an expression in CEL over cert, for the name of the caller.
	Principal string `json:"principal"`
}

// CertificateVariable is the variable of the expression for the principals of certificates.
const CertificateVariable = "cert"

// The prefixes of the principals of certificates and of a proxy's users, before a colon.
const (
	CertificatePrefix = "certificate"
	ProxyPrefix       = "proxy"
)

// AuthProxy is a proxy that identifies callers by plain headers.
type AuthProxy struct {
	// From are the addresses of the proxy, as CIDR.
	From []string `json:"from"`
	// User is the header with the user, and Groups that with the groups, or "".
	User   string `json:"user"`
	Groups string `json:"groups"`
}

// Prefixes returns From as prefixes. Invalid ones are left out.
func (p *AuthProxy) Prefixes() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range p.From {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

func tlsKeys() []key {
	return []key{
		{"certificate", pathname(), "", "The file with the certificate of the listener and the intermediate certificates, in PEM, relative to the folder of the config."},
		{"key", pathname(), "", "The file with its private key, in PEM. Other users must not be able to read it."},
		{"clientCAs", pathname(), "", "The file with the certificates of the authorities that client certificates have to be of, in PEM. It is for \"auth.certificates\"."},
	}
}

func introspectKeys() []key {
	return []key{
		{"clientId", nonEmpty(), "", "The gateway's client id at the issuer."},
		{"clientSecret", credential(), "", "The secret of the client."},
		{"clientKey", credential(), "", "The private key of the client, as PEM or JWK, with which it signs an assertion instead of a secret."},
	}
}

func certificatesKeys() []key {
	return []key{
		// Without a default: which name an authority vouches for differs.
		{"principal", text(), "", "The name of the caller, an expression in CEL over its certificate: cert.subject, the lists cert.dns and cert.uris, and cert.fingerprint, such as cert.uris[0]. The principal begins with certificate: before it. A certificate for which it has no result, or an empty one, is refused."},
	}
}

func proxyKeys() []key {
	return []key{
		// Required: a header proves nothing by itself.
		{"from", listOf(expanded()), "", "The addresses of the proxy, as CIDR such as 10.0.0.0/28. The headers of all other peers are removed."},
		{"user", text(), "", "The header with the user, such as X-Forwarded-User. The principal begins with proxy: before it."},
		{"groups", text(), "", "The header with the groups of the user, separated by commas, such as X-Forwarded-Groups. They are principal.claims.groups in a policy."},
	}
}

// tlsForm is the form of tls. The files are read immediately, so that a missing one is found
// with the configuration.
func tlsForm() form {
	f := object(tlsKeys(), []foreignKey{{"cert", false, `write "certificate"`, "certificate"}})
	return f.then(func(r *reader, _ configfile.Node, p place, into reflect.Value) {
		t, ok := reflect.TypeAssert[*TLS](into.Addr())
		certificate, privateKey, clients := p.key("certificate"), p.key("key"), p.key("clientCAs")
		if ok && t.Certificate != "" && t.Key != "" && !r.has(certificate) && !r.has(privateKey) {
			if _, err := t.Pair(); err != nil {
				if wrong, ok := errors.AsType[*keyError](err); ok {
					r.reject(privateKey, wrong.hint, "%v", err)
				} else {
					r.reject(certificate, "", "%v", err)
				}
			}
		}
		if ok && t.ClientCAs != "" && !r.has(clients) {
			if _, err := t.Authorities(); err != nil {
				r.reject(clients, "", "%v", err)
			}
		}
	})
}

// keyError is an error of the file with the private key.
type keyError struct{ text, hint string }

func (e *keyError) Error() string { return e.text }

// maxPEMFile bounds a file with certificates.
const maxPEMFile = 1 << 20

// Pair reads the certificate and its key. The error names the file, and nothing of the key.
func (t *TLS) Pair() (tls.Certificate, error) {
	certificate, problem, _ := readRegular("file with the certificate", t.Certificate, maxPEMFile, false)
	if problem != "" {
		return tls.Certificate{}, errors.New(problem)
	}
	key, problem, hint := readRegular("file with the private key", t.Key, maxPEMFile, true)
	if problem != "" {
		return tls.Certificate{}, &keyError{problem, hint}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the certificate %s and the key %s: %w", t.Certificate, t.Key, err)
	}
	return pair, nil
}

// Authorities reads the certificates of the authorities of clients.
func (t *TLS) Authorities() (*x509.CertPool, error) {
	text, problem, _ := readRegular("file with the authorities of clients", t.ClientCAs, maxPEMFile, false)
	if problem != "" {
		return nil, errors.New(problem)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the file %s has no certificate in PEM", t.ClientCAs)
	}
	return pool, nil
}

func checkTLS(c *Config, r *reader) {
	p := place{}.key("tls")
	if c.TLS == nil || r.has(p) {
		return
	}
	for _, required := range []struct{ name, value string }{{"certificate", c.TLS.Certificate}, {"key", c.TLS.Key}} {
		if required.value == "" && !r.hasOrMeant(p.key("certificate"), p.key("key"), p.key("clientCAs")) {
			r.report(p, fmt.Sprintf("add %q with a file in PEM", required.name), "%q has no %q", p.name, required.name)
		}
	}
	certificates := place{}.key("auth").key("certificates")
	if at := p.key("clientCAs"); c.TLS.ClientCAs != "" && c.Auth.Certificates == nil && !r.hasOrMeant(at, certificates) {
		r.report(at, `add "auth.certificates", or remove it`, "%q has no effect without %q", at.name, "auth.certificates")
	}
	if public := (place{}).key("publicURL"); strings.HasPrefix(c.PublicURL, "http://") && !r.has(public) {
		r.note(public, "write https://", "%q begins with http://, and the listener has TLS", public.name)
	}
}

func checkCertificates(c *Config, r *reader) {
	p := place{}.key("auth").key("certificates")
	if c.Auth.Certificates == nil || r.has(p) {
		return
	}
	text, at := c.Auth.Certificates.Principal, p.key("principal")
	switch {
	case r.hasOrMeant(at):
	case text == "":
		r.report(p, `add "principal", such as cert.uris[0]`, "%q does not specify the principal", p.name)
	default:
		if _, err := principal.Compile(CertificateVariable, text); err != nil {
			r.report(at, "such as cert.uris[0]", "%q is not an expression for a name: %v", at.name, err)
		}
	}
	authorities := place{}.key("tls").key("clientCAs")
	if (c.TLS == nil || c.TLS.ClientCAs == "") && !r.hasOrMeant(at, place{}.key("tls"), authorities) {
		r.report(p, `add "clientCAs" to "tls"`, "%q needs the authorities of the certificates, %q", p.name, "tls.clientCAs")
	}
	checkReserved(c, CertificatePrefix, p, r)
}

// checkReserved rejects names with which principals would begin like those of another form.
func checkReserved(c *Config, name string, by place, r *reader) {
	issuers, tokens := place{}.key("auth").key("issuers"), place{}.key("auth").key("tokens")
	for i := range c.Auth.Issuers {
		if at := issuers.item(i).key("name"); c.Auth.Issuers[i].Name == name && !r.has(at) {
			r.report(at, "choose another name", "%q is the prefix of the principals of %q", name, by.name)
		}
	}
	for i := range c.Auth.Tokens {
		if at := tokens.item(i).key("principal"); strings.HasPrefix(c.Auth.Tokens[i].Principal, name+":") && !r.has(at) {
			r.report(at, "choose another name", "%q begins with %q, as the principals of %q do", at.name, name+":", by.name)
		}
	}
}

func checkProxy(c *Config, r *reader) {
	p := place{}.key("auth").key("proxy")
	if c.Auth.Proxy == nil || r.has(p) {
		return
	}
	checkFrom(c, p.key("from"), r)
	proxy := c.Auth.Proxy
	user, groups := p.key("user"), p.key("groups")
	if proxy.User == "" && !r.hasOrMeant(user) {
		r.report(p, `add "user", such as X-Forwarded-User`, "%q does not specify the header with the user", p.name)
	}
	checkProxyHeader(c, proxy.User, user, r)
	checkProxyHeader(c, proxy.Groups, groups, r)
	if proxy.User != "" && strings.EqualFold(proxy.User, proxy.Groups) && !r.has(groups) {
		r.report(groups, "choose another header", "%q and %q are one header", user.name, groups.name)
	}
	checkReserved(c, ProxyPrefix, p, r)
}

// checkFrom requires addresses, and notes those from which others than the proxy can send its
// headers.
func checkFrom(c *Config, list place, r *reader) {
	proxy := c.Auth.Proxy
	if len(proxy.From) == 0 && !r.hasOrMeant(list) {
		r.report(place{}.key("auth").key("proxy"), `add "from", such as ["10.0.0.0/28"]`, "%q does not specify the addresses of the proxy", "proxy")
	}
	local := false
	for i, text := range proxy.From {
		at := list.item(i)
		if r.has(at) {
			local = true // unknown
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			r.report(at, "such as 10.0.0.0/28, or 10.0.0.5/32 for one address", "%q is not a CIDR", at.name)
		case prefix != prefix.Masked():
			r.report(at, fmt.Sprintf("write %v, or %v/%d for one address", prefix.Masked(), prefix.Addr(), prefix.Addr().BitLen()), "%q has bits behind its length", at.name)
		case prefix.Bits() == 0:
			r.note(at, "write the addresses of the proxy alone", "%q accepts the headers of every peer: anyone that reaches the listener can be any user", at.name)
		case prefix.Addr().Unmap().IsLoopback():
			r.note(at, "", "%q accepts the headers of every program on this machine, not of the proxy alone", at.name)
		}
		local = local || err == nil && (prefix.Addr().Unmap().IsLoopback() || prefix.Bits() == 0)
	}
	if len(proxy.From) > 0 && !local && c.Listen != "" && !c.isPublic() && !r.has(place{}.key("listen")) {
		r.note(list, `add 127.0.0.1/32, or set "listen"`, "%q has no address of this machine, and no other reaches the listener on loopback", list.name)
	}
}

// checkProxyHeader requires a header that nothing else uses.
func checkProxyHeader(c *Config, name string, p place, r *reader) {
	lower := strings.ToLower(name)
	signed := func(s Issuer) bool { return s.Header != "" && strings.EqualFold(s.Header, name) }
	switch {
	case name == "" || r.has(p):
	case strings.ContainsFunc(name, func(c rune) bool { return c > unicode.MaxASCII || !isNameByte(byte(c)) }):
		r.report(p, "such as X-Forwarded-User", "%q is not the name of a header", p.name)
	case hasOtherUse(lower) || lower == "authorization" || strings.HasPrefix(lower, "x-forwarded-for") || slices.ContainsFunc(c.Auth.Issuers, signed):
		r.report(p, "such as X-Forwarded-User", "%q has another use", p.name)
	}
}

// checkIntrospection checks the introspection of the issuers.
func checkIntrospection(c *Config, r *reader) {
	list, first := place{}.key("auth").key("issuers"), -1
	for i := range c.Auth.Issuers {
		s := &c.Auth.Issuers[i]
		p := list.item(i).key("introspect")
		if s.Introspect == nil || r.has(list.item(i)) || r.has(p) {
			continue
		}
		if first >= 0 {
			r.report(p, "remove one of them", "%q and %q both have %q: which one to ask about a token is not known", list.item(first).name, list.item(i).name, p.name)
		}
		first = i
		if at := list.item(i).key("header"); !strings.EqualFold(header(s), "Authorization") && !r.has(at) {
			r.report(p, "remove it", "%q is for tokens in Authorization, and the issuer has a header of its own", p.name)
		}
		checkIntrospect(s.Introspect, p, r)
	}
}

func checkIntrospect(in *Introspect, p place, r *reader) {
	id := p.key("clientId")
	if in.ClientID == "" && !r.hasOrMeant(id) {
		r.report(p, "add it, as the issuer has registered the gateway", "%q has no %q", p.name, id.name)
	}
	if !checkCredential(in.ClientSecret, in.ClientKey, p, r) {
		r.report(p, `add "clientSecret" or "clientKey"`, "%q has no credential of the client", p.name)
	}
}
