// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import "net/netip"

// addressClass is a class of addresses for the address guard. The zero value is that of
// public addresses.
type addressClass string

const (
	classPublic      addressClass = ""
	classLoopback    addressClass = "loopback"
	classPrivate     addressClass = "private"
	classCGNAT       addressClass = "shared (RFC 6598)"
	classLinkLocal   addressClass = "link-local"
	classUnspecified addressClass = "unspecified"
	classMulticast   addressClass = "multicast"
	classReserved    addressClass = "reserved"
)

// addressRange is a prefix of the registries of special-purpose addresses (RFC 6890), or of
// another form that reaches a host by an address in it.
type addressRange struct {
	prefix netip.Prefix
	class  addressClass
	// embedded is the offset in bytes of an IPv4 address, by which the class is decided, or 0.
	embedded int
	inverted bool // whether the bits of that address are inverted
}

// specialRanges returns the ranges that are not public, the longest prefix first where two
// overlap.
func specialRanges() []addressRange {
	r := func(prefix string, class addressClass) addressRange {
		return addressRange{prefix: netip.MustParsePrefix(prefix), class: class}
	}
	holds := func(prefix string, offset int) addressRange {
		return addressRange{prefix: netip.MustParsePrefix(prefix), embedded: offset}
	}
	return []addressRange{
		r("0.0.0.0/8", classUnspecified),
		r("10.0.0.0/8", classPrivate),
		r("100.64.0.0/10", classCGNAT),
		r("127.0.0.0/8", classLoopback),
		r("169.254.0.0/16", classLinkLocal),
		r("172.16.0.0/12", classPrivate),
		r("192.0.0.0/24", classReserved),
		r("192.0.2.0/24", classReserved),
		r("192.88.99.0/24", classReserved), // relays of 6to4
		r("192.168.0.0/16", classPrivate),
		r("198.18.0.0/15", classReserved),
		r("198.51.100.0/24", classReserved),
		r("203.0.113.0/24", classReserved),
		r("224.0.0.0/4", classMulticast),
		r("240.0.0.0/4", classReserved), // and the broadcast address

		r("::/128", classUnspecified),
		r("::1/128", classLoopback),
		holds("::ffff:0:0:0/96", 12), // translated, RFC 2765
		holds("::/96", 12),           // compatible, RFC 4291, section 2.5.5.1
		holds("64:ff9b::/96", 12),    // NAT64, RFC 6052
		r("64:ff9b:1::/48", classPrivate),
		r("100::/64", classReserved),
		{prefix: netip.MustParsePrefix("2001::/32"), embedded: 12, inverted: true}, // Teredo, RFC 4380
		r("2001:2::/48", classReserved),
		r("2001:10::/28", classReserved),
		r("2001:db8::/32", classReserved),
		holds("2002::/16", 2), // 6to4, RFC 3056
		r("3fff::/20", classReserved),
		r("5f00::/16", classReserved),
		r("fc00::/7", classPrivate),
		r("fe80::/10", classLinkLocal),
		r("fec0::/10", classPrivate), // site-local, RFC 3879
		r("ff00::/8", classMulticast),
	}
}

// classOf returns the class of an address. A form that embeds an IPv4 address (mapped,
// translated, 6to4, NAT64, Teredo) has the class of that address. Other IPv6 addresses
// outside 2000::/3 are reserved.
func classOf(addr netip.Addr) addressClass {
	addr = addr.Unmap().WithZone("")
	for _, r := range specialRanges() {
		if !r.prefix.Contains(addr) {
			continue
		}
		if r.embedded == 0 {
			return r.class
		}
		return classOf(r.inner(addr))
	}
	if addr.Is6() && !netip.MustParsePrefix("2000::/3").Contains(addr) {
		return classReserved
	}
	return classPublic
}

// inner returns the IPv4 address in an IPv6 address of the range.
func (r addressRange) inner(addr netip.Addr) netip.Addr {
	bytes := addr.As16()
	v4 := [4]byte(bytes[r.embedded:])
	if r.inverted {
		for i := range v4 {
			v4[i] = ^v4[i]
		}
	}
	return netip.AddrFrom4(v4)
}
