// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
)

// signInProblem returns what to write for a backend that refuses requests without a credential, and
// has none in its entry. It returns "" for any other.
func (b *activeBackend) signInProblem(cfg *config.Config, state *BackendStatus) string {
	if b.access != nil || b.srv.URL == "" || access.HasAuthorization(&b.srv) {
		return ""
	}
	var keys []string
	if cfg.Auth.IsZero() {
		keys = append(keys, `"auth"`)
	}
	if !cfg.IsLocal() && cfg.PublicURL == "" {
		keys = append(keys, `"publicURL"`)
	}
	line := `"oauth: {}" to ` + configpath.Server(b.srv.Name)
	if keys != nil {
		line = strings.Join(keys, " and ") + ", and " + line
	}
	switch state.Code {
	case code.AuthSignIn:
		return fmt.Sprintf("backend %q requires a sign-in: add %s", b.srv.Name, line)
	case code.AuthWrong:
		return fmt.Sprintf("backend %q requires a credential: add %s if users sign in to it, or else an Authorization header", b.srv.Name, line)
	}
	return ""
}
