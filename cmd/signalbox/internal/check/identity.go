// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// Identity returns notes on the identity provider at which the users of pages sign in, after
// reading its metadata. It sends nothing else.
func Identity(ctx context.Context, cfg *config.Config) config.Problems {
	iss := cfg.Auth.BrowserIssuer()
	if iss == nil {
		return nil
	}
	note := func(path, text, cure string) config.Problems {
		return config.Problems{cfg.Problem(path, text, cure)}
	}
	client, err := oauth.New(oauth.Config{Backend: iss.Issuer, Issuer: iss.Issuer})
	if err != nil {
		return note("auth.browser.issuer", err.Error(), "")
	}
	srv, err := client.Server(ctx, iss.Issuer, false)
	switch {
	case err != nil:
		return note("auth.browser.issuer", fmt.Sprintf("users cannot sign in on pages, because the metadata of %s cannot be used: %v", iss.Name, err), "")
	case srv.AuthorizationEndpoint == "":
		return note("auth.browser.issuer", fmt.Sprintf("users cannot sign in on pages, because %s has no authorization_endpoint", iss.Name), "")
	}
	if !srv.IsPairwise() || !isSubject(iss.Principal) {
		return nil
	}
	at := 0
	for cfg.Auth.Issuers[at].Name != iss.Name {
		at++
	}
	text := fmt.Sprintf("%s gives each client another sub of a user (its subject_types_supported are pairwise), so that users are others on pages than in requests", iss.Name)
	return note(fmt.Sprintf("auth.issuers[%d].principal", at), text, "use a claim that is the same for all clients, such as claims.oid or claims.email")
}

// isSubject reports whether an expression is the subject alone.
func isSubject(expression string) bool {
	switch strings.Join(strings.Fields(expression), "") {
	case "", "claims.sub", `claims["sub"]`, "claims['sub']": // "" is the default
		return true
	}
	return false
}
