// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/signalbox-mcp/signalbox"
)

// reload puts the configuration to work as it is now, as the operator asked. One that cannot work is
// refused: the log says all that is wrong with it, and nothing changes.
func (s *service) reload(ctx context.Context) (*signalbox.Config, error) {
	// Somebody sent the signal and waits for a word; silence would read as success.
	if s.source.isDemo() {
		s.log.InfoContext(ctx, "nothing to reload: this is the demo")
		return nil, errDemo
	}
	return s.reloadBy(ctx, s.gateway.Reload)
}

// errDemo is returned where there is no file to read again.
var errDemo = errors.New("it serves the demo, and has no file to reload")

// reloadChange puts a file to work that has changed, as far as the configuration lets
// it do that by itself.
func (s *service) reloadChange(ctx context.Context) {
	_, _ = s.reloadBy(ctx, func(ctx context.Context, cfg signalbox.Config) error {
		exposed := s.exposure.Of(s.source.path)
		for _, file := range s.running.NewEnvFiles(&cfg) {
			exposed = append(exposed, s.exposure.Of(file)...)
		}
		return s.gateway.ReloadChange(ctx, cfg, exposed)
	}) // the log and the status say it
}

// reloadBy reads the file and gives it to one of the gateway's two ways to reload.
func (s *service) reloadBy(ctx context.Context, reload func(context.Context, signalbox.Config) error) (*signalbox.Config, error) {
	// Read anew each time: the signal says that something changed, and not what.
	cfg, err := s.load()
	if err != nil {
		// It never hears of this one otherwise, and its status is where people look.
		s.gateway.RefuseReload(err) //nolint:contextcheck // it keeps the error, and waits for nothing
	} else {
		err = reload(ctx, *cfg)
	}
	if err != nil {
		s.refuse(ctx, err)
		return nil, err
	}
	s.running = cfg
	s.exposure.Add(cfg)
	s.log.InfoContext(ctx, "configuration reloaded", slog.String("file", s.source.path), slog.Int("backends", len(cfg.Servers)))
	return cfg, nil
}

// refuse logs why a reload was refused, one record for each problem.
func (s *service) refuse(ctx context.Context, err error) {
	var problems signalbox.Problems
	switch {
	case !errors.As(err, &problems):
		s.log.ErrorContext(ctx, "reload refused: the file cannot be read", slog.Any("error", err))
		return
	case errors.Is(err, signalbox.ErrWaits):
		for _, p := range problems {
			s.log.WarnContext(ctx, "reload waits: the old configuration goes on", slog.String("change", p.String()))
		}
		return
	}
	for _, p := range problems {
		s.log.ErrorContext(ctx, "reload refused: the old configuration goes on", slog.String("problem", p.String()))
	}
}
