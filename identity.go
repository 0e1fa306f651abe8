// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"log/slog"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/auth"
)

// newAuth returns what identifies the senders of requests, or nil without authentication. The
// values of tokens are revealed only to the comparison, so that no log and no status can print
// one.
func newAuth(cfg *config.Config, log *slog.Logger) (*auth.Chain, error) {
	if len(cfg.Auth.Tokens) == 0 {
		return nil, nil
	}
	out := auth.Config{Logger: log}
	for _, t := range cfg.Auth.Tokens {
		out.Tokens = append(out.Tokens, auth.Token{Principal: t.Principal, Value: t.Value.Reveal(), Profiles: t.Profiles})
	}
	return auth.New(out)
}
