// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
)

// serveServerChanges serves the paths of all changes of a server.
func (s *service) serveServerChanges(routes *http.ServeMux) {
	for verb, change := range map[string]func(ctx context.Context, name string) (signalbox.BackendStatus, error){
		"retry":   s.gateway.RetryBackend,
		"restart": s.gateway.RestartBackend,
		"stop": func(_ context.Context, name string) (signalbox.BackendStatus, error) {
			return s.gateway.StopBackend(name) //nolint:contextcheck // backends outlive the request
		},
	} {
		routes.HandleFunc("POST "+control.ServersPath+"{name}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			a := control.ServerResult{Process: os.Getpid()}
			state, err := change(r.Context(), r.PathValue("name"))
			if err != nil {
				a.Problem, a.Unknown = err.Error(), errors.Is(err, signalbox.ErrNoBackend)
			} else {
				a.Backend = &state
			}
			writeAnswer(w, a)
		})
	}
}
