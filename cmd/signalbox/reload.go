// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/signalbox-mcp/signalbox"
)

// reload puts the configuration to work as it is now. One that cannot work is
// refused: the log says all that is wrong with it, and nothing changes.
func (s *service) reload(ctx context.Context) {
	// Somebody sent the signal and waits for a word; silence would read as success.
	if s.source.isDemo() {
		s.log.InfoContext(ctx, "nothing to reload: this is the demo")
		return
	}
	// Read anew each time: the signal says that something changed, and not what.
	cfg, err := s.load()
	if err != nil {
		// It never hears of this one otherwise, and its status is where people look.
		s.gateway.RefuseReload(err) //nolint:contextcheck // it keeps the error, and waits for nothing
	} else {
		err = s.gateway.Reload(ctx, *cfg)
	}
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	s.log.InfoContext(ctx, "configuration reloaded", slog.String("file", s.source.path), slog.Int("backends", len(cfg.Servers)))
}

// refuse logs why a reload was refused, one record for each problem.
func (s *service) refuse(ctx context.Context, err error) {
	var problems signalbox.Problems
	if !errors.As(err, &problems) {
		s.log.ErrorContext(ctx, "reload refused: the file cannot be read", slog.Any("error", err))
		return
	}
	for _, p := range problems {
		s.log.ErrorContext(ctx, "reload refused: the old configuration goes on", slog.String("problem", p.String()))
	}
}
