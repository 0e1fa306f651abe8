// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/audit"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The events about identity: sign-ins and grants, and what callers may do.
const (
	signInBegun   server.EventKind = "signin_begun"   // a person was asked to sign in
	signInDone    server.EventKind = "signin_done"    // a sign-in has made a grant
	signInFailed  server.EventKind = "signin_failed"  // a sign-in was declined, refused or has expired
	grantEnded    server.EventKind = "grant_ended"    // a grant was revoked, or is not refreshed any more
	issuerChanged server.EventKind = "issuer_changed" // a backend names another authorization server than before
	foreignSignIn server.EventKind = "foreign_signin" // a sign-in of another principal
	foreignProxy  server.EventKind = "foreign_proxy"  // a header of a proxy from another peer
)

// verdict is why a call was served or refused, for its audit record. Each text is of the
// configuration or the code.
type verdict struct {
	decision string // of the policy
	rule     string // that has decided
	answer   string // of the user that was asked about the call
	as       string // the owner of the credentials that the backend got: user or gateway
}

// identityEvent is an event about identity.
type identityEvent struct {
	kind     server.EventKind
	identity *mcp.Identity // of the caller, or nil
	remote   string        // the address of the connection, if there is one
	session  string        // as of sessionOf
	detail   string        // what it concerns, such as a backend; no argument and no credential

	verdict
}

// noteIdentityEvent counts and records an event. It escapes and cuts the detail, which may be
// of a client or a backend. It does not block.
func (g *Gateway) noteIdentityEvent(ctx context.Context, e *identityEvent) {
	g.metrics.Event(ctx, string(e.kind))
	entry := audit.Entry{
		Event: string(e.kind), Remote: e.remote, Session: e.session, Via: viaOf(e.identity),
		Decision: e.decision, Rule: e.rule, Answer: e.answer, As: e.as,
	}
	if e.identity != nil {
		entry.Principal = e.identity.Principal
	}
	if e.detail != "" {
		entry.Detail = escapeName(e.detail)
	}
	g.audit.Record(ctx, entry)
}

// viaOf returns the form of the credential of a caller, or "".
func viaOf(id *mcp.Identity) string {
	if id == nil {
		return ""
	}
	return string(id.Via)
}
