// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Proxy identifies senders by plain headers. They count only from its own addresses, because
// anything else that reaches the gateway could send them, too.
type Proxy struct {
	// From are the addresses of the proxy.
	From []netip.Prefix
	// User is the header with the user, and Groups that with the groups, separated by
	// commas, or "".
	User, Groups string
}

// proxyPrefix is the beginning of the principals of a proxy's users.
const proxyPrefix = "proxy:"

// maxGroups bounds the groups of one user.
const maxGroups = 1000

// proxy is a Proxy with canonical names of headers.
type proxy struct {
	from         []netip.Prefix
	user, groups string
	headers      []string // both
	foreign      func(*http.Request, string)
}

func newProxy(cfg *Proxy, foreign func(*http.Request, string)) *proxy {
	p := &proxy{user: textproto.CanonicalMIMEHeaderKey(cfg.User), groups: textproto.CanonicalMIMEHeaderKey(cfg.Groups), foreign: foreign}
	for _, prefix := range cfg.From {
		p.from = append(p.from, unmapped(prefix))
	}
	for _, name := range []string{p.user, p.groups} {
		if name != "" {
			p.headers = append(p.headers, name)
		}
	}
	if p.foreign == nil {
		p.foreign = func(*http.Request, string) {}
	}
	return p
}

// unmapped returns the IPv4 form of a prefix of IPv4 addresses that is written as IPv6.
func unmapped(prefix netip.Prefix) netip.Prefix {
	const mapped = 96
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= mapped {
		return netip.PrefixFrom(addr.Unmap(), prefix.Bits()-mapped).Masked()
	}
	return prefix.Masked()
}

// isFrom reports whether a request comes from the proxy, by the address of its connection.
func (p *proxy) isFrom(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(p.from, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// isIn reports whether a request has a header of the proxy.
func (p *proxy) isIn(h http.Header) bool {
	return slices.ContainsFunc(p.headers, func(name string) bool { return len(h[name]) > 0 })
}

// dropForeign removes the headers of the proxy from a request of another peer, and reports it.
func (p *proxy) dropForeign(r *http.Request) {
	if !p.isIn(r.Header) || p.isFrom(r) {
		return
	}
	found := ""
	for _, name := range p.headers {
		if len(r.Header[name]) > 0 && found == "" {
			found = name
		}
		delete(r.Header, name)
	}
	p.foreign(r, found)
}

// verifyProxy returns the identity of the user that the proxy names.
func (c *Chain) verifyProxy(r *http.Request) (*mcp.Identity, error) {
	user, ok := single(r.Header[c.proxy.user])
	// A proxy that adds its value to that of a client does so behind a comma.
	if !ok || strings.Contains(user, ",") || principal.Check(user) != nil || strings.TrimSpace(user) != user {
		return nil, c.refuse(r, nil, malformed, "the header "+c.proxy.user+" does not name a single user")
	}
	id := &mcp.Identity{Principal: proxyPrefix + user, Via: mcp.ViaProxy}
	if c.proxy.groups == "" {
		return id, nil
	}
	groups := []any{}
	if values := r.Header[c.proxy.groups]; len(values) > 0 {
		list, ok := single(values)
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			ok = ok && principal.Check(name) == nil && len(groups) < maxGroups
			groups = append(groups, name)
		}
		if !ok && (len(values) > 1 || values[0] != "") {
			return nil, c.refuse(r, nil, malformed, "the header "+c.proxy.groups+" is not a single list of groups")
		}
	}
	id.Claims = map[string]any{"groups": groups}
	return id, nil
}

// single returns the value of a header that has one, which is not empty.
func single(values []string) (string, bool) {
	if len(values) != 1 || values[0] == "" || len(values[0]) > maxToken {
		return "", false
	}
	return values[0], true
}
