// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
)

// serveWhy answers control.WhyPath.
func (s *service) serveWhy(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	status := s.gateway.Status()
	if err := profiles.Narrow(&status, query.Get("profile")); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeAnswer(w, s.gateway.Explain(query.Get("name"), query.Get("profile")))
}
