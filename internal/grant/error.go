// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// Error is the failure of a request for lack of a valid token. Its text is for the clients of
// the gateway: it names the key of the configuration to correct, and of what an authorization
// server has sent it contains the code of its error alone. Unwrap returns the cause, which is
// for the operator.
type Error struct {
	text string
	err  error
}

// Error returns the text.
func (e *Error) Error() string { return e.text }

// Unwrap returns the cause, which may be nil.
func (e *Error) Unwrap() error { return e.err }

// newError returns an Error that names the keys of a backend to correct.
func newError(cause error, backend, text string, keys ...string) *Error {
	if len(keys) > 0 {
		text = fmt.Sprintf("%s; correct %s of %s", text, "oauth."+strings.Join(keys, ", oauth."), configpath.Server(backend))
	}
	return &Error{text, cause}
}

// isOver reports whether err is that of a request that has ended while it waited for a token.
func isOver(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !oauth.IsTemporary(err)
}

// forbidden returns the error of a 403 for a token with the configured scopes, beyond which none are
// requested.
func forbidden(backend, token string, challenge oauth.Bearer) error {
	if challenge.Error != oauth.ErrorInsufficientScope || len(challenge.Scopes) == 0 {
		return client.ErrRefused
	}
	return newError(nil, backend, "it requires scopes that "+token+" does not have, which are "+scopeText(challenge.Scopes), "scopes")
}

// reasonOf describes why there is no token, and returns the keys that can cause it.
func reasonOf(err error) (text string, keys []string) {
	refused, isRefused := errors.AsType[*oauth.ServerError](err)
	check, isCheck := errors.AsType[*oauth.CheckError](err)
	_, isAssertion := errors.AsType[*errAssertion](err)
	switch {
	case oauth.IsTemporary(err):
		return "its authorization server cannot be reached, and is asked again within a minute", nil
	case isRefused && refused.Code == "":
		return fmt.Sprintf("its authorization server gives no token (HTTP status %d)", refused.Status), []string{"clientId", "grant"}
	case isRefused:
		return fmt.Sprintf("its authorization server gives no token (%s)", refused.Code), keysOf(refused.Code)
	case isAssertion:
		return "the assertion cannot be read", []string{"assertion"}
	case isCheck && check.Check == oauth.CheckAuthMethod:
		return "its authorization server accepts no credential of the client", []string{"clientSecret", "clientKey"}
	case isCheck && (check.Check == oauth.CheckPinnedIssuer || check.Check == oauth.CheckCredential):
		return "it names another authorization server than the configuration", []string{"issuer"}
	case isCheck && (check.Check == oauth.CheckNotFound || check.Check == oauth.CheckServers):
		return "its authorization server was not found", []string{"issuer"}
	case isCheck:
		return fmt.Sprintf("what its authorization server or it has published is not acceptable (%s)", check.Check), []string{"issuer"}
	default:
		return "no token was obtained for it", nil
	}
}

// keysOf returns the keys that can cause an error of a token endpoint (RFC 6749, section 5.2, and
// RFC 8707, section 2).
func keysOf(code string) []string {
	switch code {
	case oauth.CodeInvalidClient:
		return []string{"clientId", "clientSecret", "clientKey"}
	case oauth.CodeInvalidScope:
		return []string{"scopes"}
	case oauth.CodeInvalidTarget:
		return []string{"resource", "audience"}
	case oauth.CodeInvalidGrant:
		return []string{"assertion"}
	default:
		return []string{"grant", "clientId"}
	}
}
