// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"fmt"
	"strings"
)

// Missing is the error of a request of a principal that has to sign in at the authorization server
// of the backend. The request has not been dispatched, so that it may be sent after the sign-in.
// Its text is for the principal, and contains nothing of a server but the names of scopes.
type Missing struct {
	Backend   string // configured name
	Principal string
	Reason    Reason

	// Scopes are those to request: what the principal had, with what the backend requires. nil is
	// those of a first sign-in.
	Scopes []string

	// Issuer is the authorization server of the grant that ended, or "" if there was none.
	Issuer string

	// Err is the cause, for the operator, or nil.
	Err error
}

// Reason is why a principal has to sign in.
type Reason string

// The reasons.
const (
	NeverSignedIn  Reason = "not signed in" // or signed out
	Ended          Reason = "ended"         // the authorization server does not renew the grant
	Expired        Reason = "expired"       // the grant cannot be renewed
	AnswerLost     Reason = "answer lost"   // of a renewal, after which the grant is not valid any more
	ClientGone     Reason = "client gone"   // the authorization server does not know the gateway's client any more
	RefusedAnyway  Reason = "refused"       // the backend refuses the token, also after its renewal
	OtherIssuer    Reason = "other issuer"  // the backend has another authorization server now
	NoIDToken      Reason = "no ID token"   // of the identity provider that vouches for the principal, which is where to sign in
	NeedsMoreScope Reason = "scopes"        // the backend requires more scopes for this request
)

// Further reasons of a GrantEnded.
const (
	signedOut Reason = "signed out"        // by this process
	notKept   Reason = "not kept any more" // another process has deleted it
)

// maxScopeText bounds the names of scopes in the text of an error.
const maxScopeText = 200

// Error returns what the principal has to do, and why.
func (m *Missing) Error() string {
	switch m.Reason {
	case Ended:
		return "you have to sign in again, because your access has ended"
	case Expired:
		return "you have to sign in again, because your access has expired and cannot be renewed"
	case AnswerLost:
		return "you have to sign in again, because the connection to the authorization server broke while your access was renewed"
	case ClientGone:
		return "you have to sign in again, because the authorization server does not know the gateway any more"
	case RefusedAnyway:
		return "you have to sign in again, because it refuses your access"
	case OtherIssuer:
		return "you have to sign in again, because it has another authorization server now"
	case NoIDToken:
		return "you have to sign in at the identity provider first"
	case NeedsMoreScope:
		return fmt.Sprintf("you have to sign in again to allow more (scopes %s)", scopeText(m.Scopes))
	default:
		return "you have to sign in first"
	}
}

// Unwrap returns Err.
func (m *Missing) Unwrap() error { return m.Err }

// scopeText returns the names of scopes, which are untrusted, quoted and cut.
func scopeText(scopes []string) string {
	text := strings.Join(scopes, " ")
	if len(text) > maxScopeText {
		text = text[:maxScopeText] + "..." // scopes are ASCII
	}
	return fmt.Sprintf("%+q", text)
}
