// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"net/http"
	"net/netip"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/server"
)

// operators decides which callers may read the status and the metrics. These have the names
// of all backends, which a policy may hide.
type operators struct {
	condition *policy.Condition // may be nil
	byAddress bool              // without a condition: only callers on this machine
}

// newOperators returns the operators of a configuration.
func newOperators(cfg *config.Config) *operators {
	condition, err := cfg.CompileOperators() // a valid configuration has no mistake in it
	return &operators{condition: condition, byAddress: err != nil || condition == nil && !cfg.Policy.IsZero()}
}

// include reports whether the sender of a request that the server has passed is an operator.
func (o *operators) include(r *http.Request) bool {
	switch {
	case r.Context().Value(localKey{}) != nil: // only the operator can reach that listener
		return true
	case o.condition != nil:
		return o.condition.Holds(server.IdentityOf(r.Context()))
	case o.byAddress:
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		return err == nil && peer.Addr().Unmap().IsLoopback()
	default:
		return true
	}
}

// forOperators passes the requests of operators to next, and refuses all others.
func (g *Gateway) forOperators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.operators.Load().include(r) {
			next.ServeHTTP(w, r)
			return
		}
		g.noteIdentityEvent(r.Context(), &identityEvent{
			kind: policyDenied, identity: server.IdentityOf(r.Context()), remote: r.RemoteAddr, detail: r.URL.Path,
			verdict: verdict{decision: "denied", rule: "operators"},
		})
		writeText(w, http.StatusForbidden, "only operators of the gateway may read this (operators)")
	})
}
