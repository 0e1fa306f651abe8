// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"slices"
	"strings"
)

// scopeOffline asks for a refresh token (OpenID Connect Core 1.0, section 11).
const scopeOffline = "offline_access"

// SplitScopes returns the scopes of a text with spaces (RFC 6749, section 3.3), without
// those that occur again. Scopes with characters that are not allowed are left out. The
// result is not nil.
func SplitScopes(text string) []string {
	scopes := []string{}
	for scope := range strings.FieldsSeq(text) {
		if isScope(scope) && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// isScope reports whether text is a scope-token of RFC 6749, section 3.3.
func isScope(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return text != ""
}

// ScopeSources are what the scopes of a request are chosen from. A nil list is absent.
type ScopeSources struct {
	Configured []string // of the backend's configuration
	Challenge  []string // of the challenge of the backend
	Resource   []string // scopes_supported of the resource
	Granted    []string // of the grant that is to be replaced by a larger one, if any
	Server     *Server  // for which the request is
	Offline    bool     // whether a refresh token is wanted: the code grant
}

// Scopes returns the scopes of a request; nil omits the parameter. The first request has
// the configured ones, or else those of the challenge, or else scopes_supported of the
// resource. If there is a grant, the request has the union of what was granted and the
// challenge, so that no permission is lost. offline_access is added to the others if the
// authorization server lists it, and is not sent to any other.
func (s ScopeSources) Scopes() []string {
	var scopes []string
	switch {
	case s.Granted != nil:
		scopes = union(s.Granted, s.Challenge)
	case s.Configured != nil:
		scopes = union(s.Configured)
	case s.Challenge != nil:
		scopes = union(s.Challenge)
	default:
		scopes = union(s.Resource)
	}
	scopes = slices.DeleteFunc(scopes, func(scope string) bool { return scope == scopeOffline })
	if len(scopes) == 0 {
		return nil
	}
	if s.Offline && s.Server != nil && slices.Contains(s.Server.Scopes, scopeOffline) {
		scopes = append(scopes, scopeOffline)
	}
	return scopes
}

// union returns the scopes of all lists, in order, each once.
func union(lists ...[]string) []string {
	var scopes []string
	for _, list := range lists {
		for _, scope := range list {
			if isScope(scope) && !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	return scopes
}
