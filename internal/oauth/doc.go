// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oauth is an OAuth client of authorization servers, for the access to MCP servers
// (MCP specification 2026-07-28, Authorization). It finds the authorization server of a
// backend, registers a client there, builds authorization requests, checks their
// responses, and requests and revokes tokens. It keeps nothing: grants, registrations and
// pending authorizations are values that its callers keep.
//
// A sign-in takes these steps:
//
//	challenge, _ := oauth.BearerChallenge(resp.Header)             // of a 401
//	d, err := client.Discover(ctx, oauth.DiscoverOptions{...})     // resource and Server
//	reg, err := client.Registration(ctx, d.Server, options)        // client id
//	a, err := oauth.Begin(oauth.AuthorizationRequest{...})         // a.URL is for the browser
//	code, err := a.Check(callback.Query())                         // of the redirect
//	tokens, err := client.Token(ctx, d.Server, reg, a.Grant(code))
//
// Everything that a backend or an authorization server sends is untrusted. All requests go
// through one http.Client, which checks addresses after resolution, follows no redirects,
// and bounds the time and the size of a response. Credentials have the issuer that they
// belong to, and are not sent to any other.
//
// Errors are of three types. A *CheckError is a response that must not be used, or a
// credential that must not be sent. A *ServerError is a refusal by the authorization
// server. A *TemporaryError is a failure after which the same request may succeed later.
package oauth
