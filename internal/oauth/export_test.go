// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"net"
	"net/netip"

	"github.com/go-json-experiment/json"
)

// Internals for the tests.

// ClassOf returns the class of an address as text; "" is public.
func ClassOf(addr netip.Addr) string { return string(classOf(addr)) }

// CheckAddr checks an address as a connection for a document of an issuer does.
func (c *Client) CheckAddr(ctx context.Context, addr netip.Addr) error {
	return c.checkAddress(ctx, addr)
}

// ParseServer parses and checks metadata of an authorization server.
func (c *Client) ParseServer(issuer string, text []byte, code bool) (*Server, error) {
	var doc serverMetadata
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return c.checkServer("test", issuer, &doc, code)
}

// ParseResource parses metadata of a resource, checks it, and chooses the issuer.
func (c *Client) ParseResource(text []byte) (resource, issuer string, err error) {
	var doc resourceMetadata
	if err := json.Unmarshal(text, &doc); err != nil {
		return "", "", err
	}
	if err := c.checkResource("test", doc.Resource); err != nil {
		return "", "", err
	}
	issuer, err = c.choose(&doc, nil)
	return doc.Resource, issuer, err
}

// SetDial replaces how connections are made, and with it the check of their addresses.
func (c *Client) SetDial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.http.Transport.(*guard).direct.DialContext = dial
}

// Bounds of a request.
const (
	RequestTimeout = requestTimeout
	MaxBody        = maxBody
)
