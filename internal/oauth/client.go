// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// Bounds of each request.
const (
	requestTimeout = 10 * time.Second
	maxBody        = 256 << 10
	maxHeader      = 64 << 10
)

// A Config is the backend on behalf of which a Client sends requests.
type Config struct {
	// Backend is the URL of the backend's MCP endpoint, as the configuration has it.
	Backend string

	// Issuer pins the authorization server, or is "" to discover it. If it is set, the
	// metadata of the resource may be on another origin than the backend, and the addresses
	// of this authorization server are not checked.
	Issuer string

	// FixedEndpoints replaces discovery by the fixed paths of MCP revision 2025-03-26:
	// /authorize, /token and /register of the backend's origin.
	FixedEndpoints bool

	// RootCAs verify servers; nil uses those of the system.
	RootCAs *x509.CertPool

	// Proxy returns the proxy of a request, as in http.Transport. If it is nil, the
	// variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY apply, as for requests to backends. A
	// proxy resolves names itself, so that only addresses in URLs are checked before a
	// request goes to it: what else it may reach is for its own rules.
	Proxy func(*http.Request) (*url.URL, error)

	// Resolver resolves names; nil uses that of the system.
	Resolver *net.Resolver

	// Transport, if not nil, carries the requests instead, and checks no addresses. It must
	// not follow redirects.
	Transport http.RoundTripper
}

// A Client sends requests to the authorization servers of one backend, and to the backend
// for its metadata. Its methods may be called concurrently. Each request has its own
// connection, because a connection that one backend may use must not be used for another,
// and ends within 10 seconds or with its context. There is nothing to close.
type Client struct {
	backend  *url.URL
	text     string // of backend
	issuer   string
	pinned   *url.URL // issuer, or nil
	fixed    bool
	loopback bool // whether http is allowed
	resolver *net.Resolver
	http     *http.Client
}

// New returns a Client. It is an error if the URL of the backend or the issuer is not an
// http or https URL with a host, if the issuer is http and not on loopback, or if there are
// an issuer and fixed endpoints.
func New(cfg Config) (*Client, error) {
	backend, err := parseURL(cfg.Backend)
	if err != nil {
		return nil, fmt.Errorf("the URL of the backend: %w", err)
	}
	c := &Client{
		backend:  backend,
		text:     cfg.Backend,
		issuer:   cfg.Issuer,
		fixed:    cfg.FixedEndpoints,
		loopback: isLoopbackHost(backend.Hostname()),
		resolver: cfg.Resolver,
	}
	if c.resolver == nil {
		c.resolver = net.DefaultResolver
	}
	if cfg.Issuer != "" {
		if cfg.FixedEndpoints {
			return nil, errors.New("an issuer has endpoints of its own; remove it, or the fixed endpoints")
		}
		issuer, err := parseURL(cfg.Issuer)
		if err != nil {
			return nil, fmt.Errorf("the issuer: %w", err)
		}
		if issuer.Scheme != "https" && !isLoopbackHost(issuer.Hostname()) {
			return nil, errors.New("the issuer is an http URL beyond loopback; use https")
		}
		if issuer.RawQuery != "" || issuer.ForceQuery {
			return nil, errors.New("the issuer has a query, which RFC 8414 does not allow")
		}
		c.pinned = issuer
	}
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	carrier := cfg.Transport
	if carrier == nil {
		carrier = c.transport(cfg.RootCAs, proxy)
	}
	c.http = &http.Client{
		Transport:     carrier,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// guard is an http.RoundTripper that checks the address of each connection.
type guard struct {
	client  *Client
	proxy   func(*http.Request) (*url.URL, error)
	direct  *http.Transport // dials through client.control
	proxied *http.Transport
}

type proxyKey struct{}

func (c *Client) transport(roots *x509.CertPool, proxy func(*http.Request) (*url.URL, error)) *guard {
	dialer := &net.Dialer{Resolver: c.resolver}
	guarded := *dialer
	guarded.ControlContext = c.control
	transport := func(d *net.Dialer) *http.Transport {
		return &http.Transport{
			DialContext:            d.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeader,
		}
	}
	g := &guard{client: c, proxy: proxy, direct: transport(&guarded), proxied: transport(dialer)}
	g.proxied.Proxy = func(req *http.Request) (*url.URL, error) {
		via, _ := req.Context().Value(proxyKey{}).(*url.URL)
		return via, nil
	}
	return g
}

// RoundTrip sends a request to its server or, if there is one, to the proxy.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	via, err := g.proxy(req)
	if err != nil { // its text may have the password of the proxy
		return nil, errors.New("the address of the proxy (HTTPS_PROXY, HTTP_PROXY) is not valid")
	}
	ctx := req.Context()
	if via == nil {
		return g.direct.RoundTrip(req)
	}
	if err := g.client.checkProxiedHost(ctx, req.URL.Hostname()); err != nil {
		return nil, err
	}
	return g.proxied.RoundTrip(req.WithContext(context.WithValue(ctx, proxyKey{}, via)))
}

// checkProxiedHost checks a host that a proxy resolves: addresses, also in the forms that
// some resolvers know (octal, hexadecimal, fewer parts), and localhost.
func (c *Client) checkProxiedHost(ctx context.Context, host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return c.checkAddress(ctx, addr)
	}
	if isLoopbackHost(host) {
		return c.checkAddress(ctx, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	last := strings.TrimSuffix(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	if last != "" && '0' <= last[0] && last[0] <= '9' {
		return &CheckError{Check: CheckAddress, Got: host, Want: "a name, or an address with four decimal parts"}
	}
	return nil
}

// anyAddressKey is the context key that reports whether a request may go to any address.
type anyAddressKey struct{}

// allowAnyAddress returns a context for requests without a check of addresses: to the
// backend's origin, to which the gateway connects anyway, and to a pinned issuer.
func (c *Client) allowAnyAddress(ctx context.Context, u *url.URL, issuer string) context.Context {
	own := sameOrigin(u, c.backend)
	pinned := issuer != "" && issuer == c.issuer
	return context.WithValue(ctx, anyAddressKey{}, own || pinned)
}

// control checks an address after resolution and before the connection to it, so that a
// name cannot resolve to another address in between.
func (c *Client) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address of a connection: %w", err)
	}
	return c.checkAddress(ctx, addr.Addr())
}

// checkAddress refuses an address that is not public, unless the request may go to any, or
// the backend's own address is of the same class.
func (c *Client) checkAddress(ctx context.Context, addr netip.Addr) error {
	class := classOf(addr)
	if class == classPublic {
		return nil
	}
	if anyAddress, _ := ctx.Value(anyAddressKey{}).(bool); anyAddress || c.backendHasClass(ctx, class) {
		return nil
	}
	return &CheckError{
		Check: CheckAddress,
		Got:   addr.String(),
		Want:  fmt.Sprintf("a public address, and this one is %s", class),
		Cure:  "if it is right, set oauth.issuer of the backend",
	}
}

// backendHasClass reports whether all addresses of the backend are of a class. What a name
// resolves to may be under the control of the backend: it can show that the backend is on
// a private network, where servers are known by certificates, but not that it is on this
// host or link, where the credentials of a cloud are.
func (c *Client) backendHasClass(ctx context.Context, class addressClass) bool {
	host := c.backend.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		return classOf(addr) == class
	}
	if class == classLoopback {
		return c.loopback
	}
	if class != classPrivate && class != classCGNAT {
		return false
	}
	addrs, err := c.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false
	}
	for _, addr := range addrs {
		if classOf(addr) != class {
			return false
		}
	}
	return len(addrs) > 0
}

// parseURL parses an http or https URL with a host, without user information and fragment.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("it does not parse as a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("its scheme is not http or https")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("it has no host")
	case strings.Contains(u.Host, "%"):
		return nil, errors.New("its host has a zone or an escape")
	case u.User != nil:
		return nil, errors.New("it has user information")
	case strings.Contains(text, "#"):
		return nil, errors.New("it has a fragment")
	}
	return u, nil
}

// checkURL checks a URL of metadata: https, or http on this host where the backend or the
// pinned issuer is, too. Its host is in ASCII unless it is that of the backend or the pinned
// issuer: others could look like another host, and net/http sends addresses in them in ASCII.
func (c *Client) checkURL(name, text string) error {
	refuse := func(want string) error {
		return &CheckError{Check: CheckEndpoint, At: name, Got: text, Want: want}
	}
	u, err := parseURL(text)
	// New allows http for a pinned issuer on loopback only.
	isLocal := c.loopback || c.pinned != nil && c.pinned.Scheme == "http"
	switch {
	case err != nil:
		return refuse("an https URL: " + err.Error())
	case u.Scheme != "https" && (!isLocal || !isLoopbackHost(u.Hostname())):
		return refuse("an https URL; http is for a backend and an authorization server on loopback")
	case !isASCII(u.Host) && !sameOrigin(u, c.backend) && (c.pinned == nil || !sameOrigin(u, c.pinned)):
		return refuse("a URL with a host in ASCII (xn--...)")
	}
	return nil
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}

// isLoopbackHost reports whether a host of a URL is a loopback address or localhost,
// whatever names resolve to.
func isLoopbackHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && classOf(addr) == classLoopback
}
