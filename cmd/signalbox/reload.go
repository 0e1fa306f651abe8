// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
)

// reload reloads the configuration because the operator asked for it. An invalid
// configuration is rejected: all problems are logged, and nothing changes.
func (s *service) reload(ctx context.Context) (*config.Config, error) {
	// Logged even in the demo: silence would read as success.
	if s.source.isDemo() {
		s.log.InfoContext(ctx, "nothing to reload: the demo has no configuration file")
		return nil, errDemo
	}
	return s.reloadBy(ctx, s.gateway.Reload)
}

// errDemo is returned if there is no file to reload.
var errDemo = errors.New("the gateway serves the demo and has no file to reload")

// reloadChange reloads a file that has changed, as far as the configuration permits this
// without the operator.
func (s *service) reloadChange(ctx context.Context) {
	_, _ = s.reloadBy(ctx, func(ctx context.Context, cfg config.Config) error {
		exposed := s.exposure.Of(s.source.path)
		for _, file := range s.running.NewEnvFiles(&cfg) {
			exposed = append(exposed, s.exposure.Of(file)...)
		}
		return s.gateway.ReloadChange(ctx, cfg, exposed)
	}) // the log and the status have the error
}

// reloadBy reads the file and passes it to reload, one of the Gateway's two methods.
func (s *service) reloadBy(ctx context.Context, reload func(context.Context, config.Config) error) (*config.Config, error) {
	// Always read: the signal may mean a change of something that the file refers to.
	cfg, err := s.load()
	if err != nil {
		// The gateway does not see this error otherwise, and its status has to show it.
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

// refuse logs why a reload was rejected, one record for each problem.
func (s *service) refuse(ctx context.Context, err error) {
	var problems config.Problems
	switch {
	case !errors.As(err, &problems):
		s.log.ErrorContext(ctx, "reload refused: the file cannot be read", slog.Any("error", err))
		return
	case errors.Is(err, signalbox.ErrWaits):
		for _, p := range problems {
			s.log.WarnContext(ctx, "reload waits: the old configuration stays in effect", slog.String("change", p.String()))
		}
		return
	}
	for _, p := range problems {
		s.log.ErrorContext(ctx, "reload refused: the old configuration stays in effect", slog.String("problem", p.String()))
	}
}
