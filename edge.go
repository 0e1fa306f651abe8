// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// serverConfig says how the configuration wants clients to be served. Defaults
// have been filled in.
func serverConfig(cfg *config.Config, logger *slog.Logger) server.Config {
	l := &cfg.Limits
	out := server.Config{
		AllowedHosts:   cfg.AllowedHosts,
		AllowedOrigins: cfg.AllowedOrigins,
		Limits: server.Limits{
			RequestBody:          bound(l.RequestBody),
			Depth:                bound(l.Depth),
			Members:              bound(l.Members),
			Batch:                bound(l.Batch),
			Sessions:             bound(l.Sessions),
			SessionsPerPrincipal: bound(l.SessionsPerPrincipal),
			InFlightPerSession:   bound(l.InFlightPerSession),
			StreamsPerSession:    bound(l.StreamsPerSession),
			SessionIdle:          boundTime(l.SessionIdle),
			SessionUninitialized: boundTime(l.SessionUninitialized),
		},
		WriteTimeout: boundTime(l.Write),
		Spread:       cfg.Drain.Spread,
		Logger:       logger,
	}
	if len(cfg.Auth.Tokens) > 0 {
		out.Authenticate = bearer(cfg.Auth.Tokens).Authenticate
	}
	return out
}

// The edges know no endless limits: a setting of "none" is one that is never
// reached.
const (
	endless     = math.MaxInt32 // bytes, or things
	endlessTime = 100 * 365 * 24 * time.Hour
)

func bound[T ~int | ~int64](limit T) T {
	if limit < 0 {
		return endless
	}
	return limit
}

func boundTime(limit time.Duration) time.Duration {
	if limit < 0 {
		return endlessTime
	}
	return limit
}

func bearer(tokens []config.Token) *auth.Bearer {
	known := make([]auth.Token, 0, len(tokens))
	for _, t := range tokens {
		known = append(known, auth.Token{Principal: t.Principal, Value: t.Value.Reveal()})
	}
	return auth.NewBearer(known)
}

// implementation is what the gateway says of itself (2025-11-25 and 2026-07-28,
// schema, Implementation).
func implementation(cfg *config.Config) []byte {
	out := mcp.AppendString([]byte(`{"name":`), cfg.Name)
	out = mcp.AppendString(append(out, `,"version":`...), cmp.Or(cfg.Version, buildVersion()))
	return append(out, '}')
}

// buildVersion is the version of this module in the running program.
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
