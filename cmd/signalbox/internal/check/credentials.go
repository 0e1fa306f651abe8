// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"log/slog"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// Credentials returns notes on kept credentials that do not open with the keys of a
// configuration, such as those of a key that was removed. It changes nothing.
func Credentials(ctx context.Context, e *command.Env, file string, cfg *config.Config) config.Problems {
	state, err := source.StateFolder(e, file)
	if err != nil && cfg.Credentials.Dir == "" {
		return nil // there is no folder for them
	}
	var keys [][]byte
	for _, key := range cfg.Credentials.Keys {
		keys = append(keys, []byte(key.Reveal()))
	}
	found, err := vault.Inspect(ctx, vault.NewOptions(cfg.Credentials.Dir, keys, state, slog.New(slog.DiscardHandler)))
	if err != nil {
		return config.Problems{cfg.Problem("credentials", "the kept credentials cannot be read: "+err.Error(), "")}
	}
	var notes config.Problems
	for _, n := range found.Notes() {
		notes = append(notes, cfg.Problem("credentials.keys", n.Text, n.Cure))
	}
	return notes
}

// signedInAt returns the servers that the only user of a configuration has signed in at, and the
// folder with what is kept of the configuration.
func signedInAt(ctx context.Context, e *command.Env, file string, cfg *config.Config) (names []string, state string) {
	state, err := source.StateFolder(e, file)
	if err != nil || !cfg.Auth.IsZero() {
		return nil, ""
	}
	options, err := access.Vault(cfg, state, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, ""
	}
	found, err := vault.Inspect(ctx, options)
	if err != nil {
		return nil, "" // Credentials reports it
	}
	for _, g := range found.Contents.Grants {
		if g.Principal == "" {
			names = append(names, g.Backend)
		}
	}
	return names, state
}
