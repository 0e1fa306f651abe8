// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"errors"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// The outcomes of a request for a credential of a backend.
const (
	refreshOK      = "ok"
	refreshRefused = "refused" // by the authorization server
	refreshFailed  = "failed"
)

// countRefreshes returns the function that counts the requests for credentials of a backend.
func (g *Gateway) countRefreshes(backend string) func(error) {
	for _, outcome := range []string{refreshOK, refreshRefused, refreshFailed} {
		g.metrics.Refreshes(backend, outcome) // begins with zero
	}
	return func(err error) {
		outcome := refreshOK
		if _, isRefused := errors.AsType[*oauth.ServerError](err); isRefused {
			outcome = refreshRefused
		} else if err != nil {
			outcome = refreshFailed
		}
		g.metrics.Refreshes(backend, outcome).Inc()
	}
}
