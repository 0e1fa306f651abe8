// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"net/http"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/server"
)

// addForms adds client certificates and the proxy of a configuration.
func addForms(out *auth.Config, cfg *config.Config) error {
	if c := cfg.Auth.Certificates; c != nil {
		expression, err := principal.Compile(config.CertificateVariable, c.Principal)
		if err != nil { // Validate has compiled it
			return config.Problems{cfg.Problem("auth.certificates.principal", err.Error(), "")}
		}
		out.Certificates = expression
	}
	if p := cfg.Auth.Proxy; p != nil {
		out.Proxy = &auth.Proxy{From: p.Prefixes(), User: p.User, Groups: p.Groups}
	}
	return nil
}

// introspection returns how an issuer is asked about tokens, or nil.
func introspection(s *config.Issuer) (*auth.Introspect, error) {
	in := s.Introspect
	if in == nil {
		return nil, nil
	}
	out := &auth.Introspect{ClientID: in.ClientID, Secret: in.ClientSecret.Token()}
	if in.ClientKey.IsZero() {
		return out, nil
	}
	var err error
	out.Key, err = oauth.ParseSigningKey([]byte(in.ClientKey.Reveal()))
	return out, err
}

// noteForeignProxy records a request with a header of the proxy that is not from it. The
// header has been removed.
func (g *Gateway) noteForeignProxy(r *http.Request, header string) {
	g.noteEvent(r.Context(), server.Event{Kind: foreignProxy, Remote: r.RemoteAddr, Detail: header})
}

// introspectionSecrets returns the credentials of the gateway's clients at issuers.
func introspectionSecrets(cfg *config.Config) []string {
	var all []config.Secret
	for i := range cfg.Auth.Issuers {
		if in := cfg.Auth.Issuers[i].Introspect; in != nil {
			all = append(all, in.ClientSecret, in.ClientKey)
		}
	}
	return revealed(all)
}
