// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/server"
)

// serverConfig returns the configuration of the inbound edge. Defaults have been filled
// in. A limit of "none" is negative in all packages that have limits.
func (g *Gateway) serverConfig(cfg *config.Config) server.Config {
	l := &cfg.Limits
	out := server.Config{
		PassArriving:   true, // taskIDCaller marks the results that it changes
		AllowedHosts:   cfg.AllowedHosts,
		AllowedOrigins: cfg.AllowedOrigins,
		Limits: server.Limits{
			RequestBody:          l.RequestBody,
			RequestHeaders:       int(l.RequestHeaders),
			Depth:                l.Depth,
			Members:              l.Members,
			Batch:                l.Batch,
			Sessions:             l.Sessions,
			SessionsPerPrincipal: l.SessionsPerPrincipal,
			InFlightPerSession:   l.InFlightPerSession,
			InFlightPerPrincipal: l.InFlightPerPrincipal,
			Subscriptions:        l.Subscriptions,
			Parked:               l.Parked,
			Rounds:               l.Rounds,
			InputWait:            l.InputWait,
			StreamsPerSession:    l.StreamsPerSession,
			SessionIdle:          l.SessionIdle,
			SessionUninitialized: l.SessionUninitialized,
			EventLog:             l.EventLog,
			EventLogs:            l.EventLogs,
			EventRetention:       l.EventRetention,
			Pending:              l.Pending,
			PendingPerPrincipal:  l.PendingPerPrincipal,
		},
		StateKeys:    stateKeys(cfg),
		WriteTimeout: l.Write,
		StreamLife:   cfg.StreamLife,
		Remembers:    true, // see seenLists
		Spread:       cfg.Drain.Spread,
		Observe:      g.noteEvent,
		Logger:       slog.New(redact.Around(g.log.Handler(), g.secrets.Load)),
	}
	// Without tokens every client is the one anonymous principal. The configuration is
	// then valid only if the listener is reachable from this machine alone, or if it
	// permits this explicitly.
	if len(cfg.Auth.Tokens) > 0 {
		out.Authenticate = exemptLocal(bearer(cfg.Auth.Tokens).Authenticate)
	}
	return out
}

// localPrincipal is the principal of requests through Local.
const localPrincipal = "local"

// localKey marks the context of a request through Local.
type localKey struct{}

// Local wraps a handler of a [Gateway] for a listener that only the operator can reach,
// such as a Unix socket in a private folder. Requests through it need no token: where
// the configuration has tokens, their principal is "local". Hosts, origins and limits
// are checked as for all others.
func Local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), localKey{}, true)))
	})
}

// exemptLocal authenticates requests that did not come through Local.
func exemptLocal(authenticate func(*http.Request) (string, error)) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		if r.Context().Value(localKey{}) != nil {
			return localPrincipal, nil
		}
		return authenticate(r)
	}
}

// stateKeys returns the secrets that seal the state held by clients, in their order.
func stateKeys(cfg *config.Config) [][]byte {
	keys := make([][]byte, 0, len(cfg.State.Keys))
	for _, key := range cfg.State.Keys {
		keys = append(keys, []byte(key.Reveal()))
	}
	return keys
}

// bearer returns the authenticator for the configured tokens. Their values are revealed
// only to the comparison, so that no log and no status can print one.
func bearer(tokens []config.Token) *auth.Bearer {
	known := make([]auth.Token, 0, len(tokens))
	for _, t := range tokens {
		known = append(known, auth.Token{Principal: t.Principal, Value: t.Value.Reveal()})
	}
	return auth.NewBearer(known)
}

// implementation returns the gateway's Implementation object (2025-11-25 and
// 2026-07-28, schema, Implementation).
func implementation(name, version string) []byte {
	out := jsonscan.AppendString([]byte(`{"name":`), name)
	out = jsonscan.AppendString(append(out, `,"version":`...), version)
	return append(out, '}')
}

// buildVersion returns the version of this module in the running program. The program
// need not be the command: one that embeds a Gateway has the module among its
// dependencies. A build from a checkout has no version.
func buildVersion() string {
	const path = "github.com/signalbox-mcp/signalbox"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" {
			return m.Version
		}
	}
	return "devel"
}
