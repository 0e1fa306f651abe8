// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// serverConfig says how the configuration wants clients to be served. Defaults
// have been filled in, and a limit of "none" is negative for all who hold one.
func (g *Gateway) serverConfig(cfg *config.Config) server.Config {
	l := &cfg.Limits
	out := server.Config{
		PassArriving:   true, // what changes results says so on them: see naming
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
		Remembers:    true, // see told
		Spread:       cfg.Drain.Spread,
		Observe:      g.noteEvent,
		Logger:       slog.New(redact.Around(g.log.Handler(), g.secrets.Load)),
	}
	// Without tokens everybody is the one anonymous principal. The configuration is
	// valid then only where nobody but this machine can reach the listener, or where
	// it says in as many words that this is meant.
	if len(cfg.Auth.Tokens) > 0 {
		out.Authenticate = orLocal(bearer(cfg.Auth.Tokens).Authenticate)
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

// orLocal authenticates requests that did not come through Local.
func orLocal(authenticate func(*http.Request) (string, error)) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		if r.Context().Value(localKey{}) != nil {
			return localPrincipal, nil
		}
		return authenticate(r)
	}
}

// stateKeys are the secrets that seal what clients keep, in their order.
func stateKeys(cfg *config.Config) [][]byte {
	keys := make([][]byte, 0, len(cfg.State.Keys))
	for _, key := range cfg.State.Keys {
		keys = append(keys, []byte(key.Reveal()))
	}
	return keys
}

// bearer returns who may call by the tokens of the configuration. Their values are
// revealed to what compares them and to nothing else, so that no log or status can
// come to print one.
func bearer(tokens []config.Token) *auth.Bearer {
	known := make([]auth.Token, 0, len(tokens))
	for _, t := range tokens {
		known = append(known, auth.Token{Principal: t.Principal, Value: t.Value.Reveal()})
	}
	return auth.NewBearer(known)
}

// implementation is what the gateway says of itself (2025-11-25 and 2026-07-28,
// schema, Implementation).
func implementation(name, version string) []byte {
	out := mcp.AppendString([]byte(`{"name":`), name)
	out = mcp.AppendString(append(out, `,"version":`...), version)
	return append(out, '}')
}

// buildVersion is the version of this module in the running program, which need
// not be the command: whoever embeds a Gateway has it among the dependencies. A
// build from a checkout has none.
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
