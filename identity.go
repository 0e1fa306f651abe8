// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/internal/metrics"
	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// newAuth returns what identifies the senders of requests, or nil without authentication. cfg
// has its defaults filled in. The values of tokens are revealed only to the comparison, so
// that no log and no status can print one. foreign is called for headers of the proxy that are
// not from it. The error is of type [config.Problems].
func newAuth(cfg *config.Config, log *slog.Logger, foreign func(*http.Request, string)) (*auth.Chain, error) {
	if cfg.Auth.IsZero() {
		return nil, nil
	}
	out := auth.Config{PublicURL: cfg.PublicURL, Path: cfg.Path, Name: cfg.Name, Logger: log}
	for _, t := range cfg.Auth.Tokens {
		out.Tokens = append(out.Tokens, auth.Token{Principal: t.Principal, Value: t.Value.Reveal(), Profiles: t.Profiles})
	}
	if err := addForms(&out, cfg); err != nil {
		return nil, err
	}
	out.ForeignProxy = foreign
	for i := range cfg.Auth.Issuers {
		s := &cfg.Auth.Issuers[i]
		introspect, err := introspection(s)
		if err != nil {
			return nil, config.Problems{cfg.Problem(fmt.Sprintf("auth.issuers[%d].introspect", i), err.Error(), "")}
		}
		expression, err := principal.Compile(config.PrincipalVariable, s.Principal)
		if err != nil { // Validate has compiled it
			return nil, config.Problems{cfg.Problem(fmt.Sprintf("auth.issuers[%d].principal", i), err.Error(), "")}
		}
		out.Issuers = append(out.Issuers, auth.Issuer{
			Name: s.Name, URL: s.Issuer, Audiences: s.Audience, Algorithms: s.Algorithms, Principal: expression,
			Scopes: s.Scopes, Implies: s.Implies, Skew: s.Skew, Header: s.Header, KeySet: s.KeySet, KeysURL: s.KeysURL(), Introspect: introspect,
		})
	}
	chain, err := auth.New(out)
	if wrong, ok := errors.AsType[*auth.IssuerError](err); ok {
		return nil, config.Problems{cfg.Problem(fmt.Sprintf("auth.issuers[%d].keys", wrong.Index), wrong.Error(), "")}
	}
	return chain, err
}

// allowedHosts returns the accepted values of the Host header: those of the configuration, and
// that of the URL at which clients reach the gateway.
func allowedHosts(cfg *config.Config) []string {
	_, host, found := strings.Cut(cfg.PublicURL, "://")
	if !found || slices.Contains(cfg.AllowedHosts, host) {
		return cfg.AllowedHosts
	}
	return append(slices.Clone(cfg.AllowedHosts), host)
}

// IsMetadata reports whether [Gateway.ServeMetadata] serves a path.
func (g *Gateway) IsMetadata(path string) bool { return g.auth != nil && g.auth.IsMetadata(path) }

// ServeMetadata serves the metadata with which clients find the authorization servers of the
// endpoint (RFC 9728), to everybody: the paths begin with
// /.well-known/oauth-protected-resource, and that of the endpoint and of each profile follows.
// There are metadata only if the configuration has issuers. The Host is checked as for all
// requests.
func (g *Gateway) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	if !g.IsMetadata(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	g.server.GuardHost(http.HandlerFunc(g.auth.ServeMetadata)).ServeHTTP(w, r)
}

// ServeStdioAs is [Gateway.ServeStdio] for a client with a known principal. It returns an error
// at once if the principal begins with the name of an issuer and a colon, as those of its
// tokens do.
func (g *Gateway) ServeStdioAs(ctx context.Context, name string, r io.Reader, w io.Writer) error {
	issuers := g.view.Load().cfg.Auth.Issuers
	for i := range issuers {
		if prefix := issuers[i].Name + ":"; strings.HasPrefix(name, prefix) {
			return fmt.Errorf("the principal %q begins with %q, as those of an issuer do", name, prefix)
		}
	}
	return g.server.ServeStdioAs(ctx, &mcp.Identity{Principal: name, Via: mcp.ViaLocal}, r, w)
}

// IssuerStatus is the state of one identity provider.
type IssuerStatus struct {
	Name    string    `json:"name"`
	Keys    int       `json:"keys"`              // that are known
	Pinned  bool      `json:"pinned,omitzero"`   // by the configuration: nothing is fetched
	Fetched time.Time `json:"fetched,omitzero"`  // when the keys were last fetched
	Tried   time.Time `json:"tried,omitzero"`    // when that was last tried
	Failure string    `json:"failure,omitempty"` // why the last try failed
}

// issuerStatus returns the state of the identity providers, in the order of the configuration.
func (g *Gateway) issuerStatus() []IssuerStatus {
	if g.auth == nil {
		return nil
	}
	var all []IssuerStatus
	for _, s := range g.auth.Status() {
		st := IssuerStatus{Name: s.Name, Keys: s.Keys, Pinned: s.Pinned, Fetched: s.Fetched, Tried: s.Tried}
		if s.Failure != nil {
			st.Failure = s.Failure.Error()
		}
		all = append(all, st)
	}
	return all
}

// Problem returns what is wrong with the identity provider, or "".
func (s *IssuerStatus) Problem() string {
	switch {
	case s.Failure == "":
		return ""
	case s.Keys == 0:
		return fmt.Sprintf("the identity provider %s cannot be reached, and requests with its tokens are refused: %s", s.Name, s.Failure)
	default:
		return fmt.Sprintf("the identity provider %s cannot be reached; its keys of %s count for a day: %s", s.Name, s.Fetched.Format(time.RFC3339), s.Failure)
	}
}

// authInstruments returns the metrics of authentication. No label is a principal.
func (g *Gateway) authInstruments() []metrics.Instrument {
	if g.auth == nil {
		return nil
	}
	return []metrics.Instrument{
		{Name: "authentications", Help: "Authentications of requests, by form of credential and outcome.", Counter: true, Read: func() []metrics.Value {
			var values []metrics.Value
			for _, c := range g.auth.Counts() {
				values = append(values, metrics.Value{Number: toInt64(c.N), Key: "form", Label: c.Form, Key2: "outcome", Label2: string(c.Outcome)})
			}
			return values
		}},
		{Name: "key_fetches", Help: "Fetches of the keys of identity providers, by outcome.", Counter: true, Read: func() []metrics.Value {
			var values []metrics.Value
			for _, s := range g.auth.Status() {
				if !s.Pinned {
					values = append(values,
						metrics.Value{Number: toInt64(s.Good), Key: "issuer", Label: s.Name, Key2: "outcome", Label2: "good"},
						metrics.Value{Number: toInt64(s.Failed), Key: "issuer", Label: s.Name, Key2: "outcome", Label2: "failed"})
				}
			}
			return values
		}},
	}
}
