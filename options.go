// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// InProcess is a backend in this process.
type InProcess struct {
	Name    string  // as the key of mcpServers; no enabled entry may have the same
	Prefix  *string // as in [config.Backend]
	Handler mcp.Handler
}

// Options are the settings of a Gateway besides its configuration. The zero value is
// suitable for most programs.
type Options struct {
	// InProcess are backends in this process. They are ordered after those of the
	// configuration.
	InProcess []InProcess

	// OneClient declares that all requests come from one client, as those of ServeStdio
	// do if nothing else is served. A backend is then started for that client, with its
	// capabilities and in its session, after the first request that identifies it.
	OneClient bool

	// NotFound answers requests to profiles that the configuration does not have, or that
	// the token of the request is not for; see WithProfile. It should answer as the program
	// does for a path at which nothing is served. If nil, it is that of [http.NotFound].
	NotFound http.Handler

	// Transport carries the HTTP requests to backends. If nil, each backend gets its
	// own, with the limits of the configuration. Redirects are never followed.
	Transport http.RoundTripper

	// ListsFolder is a folder for the lists of backends, which a later Gateway with the
	// same folder offers before it has reached them. It needs no processes for that: one
	// that may rest is started when it is used. The folder is created if necessary. It
	// contains what the servers list, readable for its user only, and none of their
	// secrets. If empty, nothing is kept.
	ListsFolder string

	// StateFolder is the folder for what must survive a restart, unless the configuration has
	// another one: the grants of users at the authorization servers of backends. It is created
	// when it is first needed. If empty, "credentials.dir" and "credentials.keys" are needed
	// for "oauth".
	StateFolder string

	// SignInPages returns the base of the URLs of a listener that serves
	// [Gateway.ServeSignIn], such as "http://127.0.0.1:7777", for one sign-in. It calls
	// release when the sign-in has ended. It is called concurrently, and not if the
	// configuration has a publicURL. If it is nil, users can sign in only in a terminal.
	SignInPages func() (base string, release func(), err error)

	// Grace is the time that the process of a backend has at each step of its shutdown:
	// after its input was closed, and after it was asked to terminate. Zero is 5 s.
	Grace time.Duration

	// LoginPath returns the PATH of the user's login shell, or "". A program of a backend
	// that is not in the PATH of this process is looked for there, and gets that PATH before
	// its own unless the configuration sets one. It is called for each start of such a
	// program, by several goroutines, and may block until ctx ends. If nil, the PATH of this
	// process is the only one.
	LoginPath func(ctx context.Context) string

	// Starts is how many processes of backends may be starting at a time. Zero is twice the number
	// of processors, and at least 4.
	Starts int

	// ProcessLevel is the level of the log records about what the processes of backends
	// write to standard error, and about their starts and ends. 0 is [slog.LevelInfo].
	ProcessLevel slog.Level

	// LogCalls writes a record of level info for each call: its id, the item, the backend,
	// the client, how it ended, and its duration.
	LogCalls bool

	// Logger may be nil. The Gateway limits the rate of its records, so that no client
	// and no backend can flood the log, and counts the records that it drops. It writes
	// them on a goroutine of its own: a slow Logger blocks nothing.
	Logger *slog.Logger
}

// localIdentity is the identity of requests through Local.
var localIdentity = &mcp.Identity{Principal: "local", Via: mcp.ViaLocal} //nolint:gochecknoglobals // immutable

// localKey marks the context of a request through Local.
type localKey struct{}

// Local wraps a handler of a [Gateway] for a listener that only the operator can reach,
// such as a Unix socket in a private folder. Requests through it need no token: their
// principal is "local", with and without authentication of others. Hosts, origins, limits
// and the policy are those of all requests.
func Local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), localKey{}, true)
		next.ServeHTTP(w, r.WithContext(server.WithIdentity(ctx, localIdentity)))
	})
}

// serverConfig returns the configuration of the inbound edge. Defaults have been filled
// in. A limit of "none" is negative in all packages that have limits.
func (g *Gateway) serverConfig(cfg *config.Config) server.Config {
	l := &cfg.Limits
	out := server.Config{
		PassArriving:   true, // taskIDCaller marks the results that it changes
		AllowedHosts:   allowedHosts(cfg),
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
		HasProfile:   g.hasProfile,
		NotFound:     g.opt.NotFound,
		StateKeys:    stateKeys(cfg),
		WriteTimeout: l.Write,
		StreamLife:   cfg.StreamLife,
		Remembers:    true, // see seenLists
		Spread:       cfg.Drain.Spread,
		Observe:      g.noteEvent,
		SessionEnded: func(d time.Duration) { g.metrics.ServerSession(d) },
		Logger:       slog.New(redact.Around(g.log.Handler(), g.secrets.Load)),
	}
	// Without tokens and issuers every client is the one anonymous principal. The configuration is
	// then valid only if the listener is reachable from this machine alone, or if it
	// permits this explicitly.
	if g.auth != nil {
		out.Authenticate, out.Challenge = g.auth.Authenticate, g.auth.Challenge
	}
	return out
}

// stateKeys returns the secrets that seal the state held by clients, in their order.
func stateKeys(cfg *config.Config) [][]byte {
	keys := make([][]byte, 0, len(cfg.State.Keys))
	for _, key := range cfg.State.Keys {
		keys = append(keys, []byte(key.Reveal()))
	}
	return keys
}

// secretsOf returns a Redactor for the edge's log. It removes the secrets of all
// backends and the tokens of clients. Records about one backend are redacted by that
// backend's own.
func secretsOf(cfg *config.Config) *redact.Redactor {
	headers := make(http.Header)
	var env, urls, more []string
	for _, srv := range cfg.Servers {
		for name, values := range header(srv.Headers) {
			headers[name] = append(headers[name], values...)
		}
		env = append(env, environ(srv.Env)...)
		urls = append(urls, srv.URL)
		more = slices.Concat(more, revealed(srv.Secrets), oauthSecrets(&srv))
	}
	for _, t := range cfg.Auth.Tokens {
		env = append(env, "TOKEN="+t.Value.Reveal())
	}
	return redact.New(headers, env, urls...).With(slices.Concat(more, introspectionSecrets(cfg), browserSecrets(cfg))...)
}
