// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
)

// reloadFor is reload for files that are watched: a change that it reads is not one for the watcher any more.
func (s *service) reloadFor(ctx context.Context, w *watcher) (*config.Config, error) {
	w.note()
	return s.reload(ctx)
}

// reload reloads the configuration because the operator asked for it. An invalid
// configuration is rejected: all problems are logged, and nothing changes.
func (s *service) reload(ctx context.Context) (*config.Config, error) {
	// Logged even in the demo: silence would read as success.
	if s.source.IsDemo() {
		s.log.InfoContext(ctx, "nothing to reload: the demo has no configuration file")
		return nil, errNoFile
	}
	if !s.source.HasFile() {
		s.log.InfoContext(ctx, "nothing to reload: no configuration was found at the start")
		return nil, errNoFile
	}
	return s.reloadBy(ctx, s.gateway.Reload)
}

var errNoFile = errors.New("the gateway has no file to reload")

// reloadChange reloads a file that has changed, as far as the configuration permits this
// without the operator.
func (s *service) reloadChange(ctx context.Context) {
	_, _ = s.reloadBy(ctx, func(ctx context.Context, cfg config.Config) error {
		exposed := s.exposure.Of(s.source.Path)
		for _, file := range s.running.NewEnvFiles(&cfg) {
			exposed = append(exposed, s.exposure.Of(file)...)
		}
		if file := cmp.Or(cfg.SecretsFile(), s.running.SecretsFile()); file != "" {
			exposed = append(exposed, s.exposure.Of(file)...)
		}
		// The digests of texts leave out what pins.ignore has, so that the folder counts, too.
		for _, path := range []string{config.LockFile(s.source.Path), config.PinsFolder(s.source.Path)} {
			if _, err := os.Lstat(path); err == nil {
				exposed = append(exposed, s.exposure.Of(path)...)
			}
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
	s.log.InfoContext(ctx, "configuration reloaded", slog.String("file", s.source.Path), slog.Int("backends", len(cfg.Servers)))
	return cfg, nil
}

// refuse logs why a reload was rejected, one record for each problem.
func (s *service) refuse(ctx context.Context, err error) {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		s.log.ErrorContext(ctx, "reload refused: the file cannot be read", slog.Any("error", err))
	}
	for _, p := range problems {
		if errors.Is(err, signalbox.ErrWaits) {
			s.log.WarnContext(ctx, "reload waits: the old configuration stays in effect", slog.String("change", p.String()))
		} else {
			s.log.ErrorContext(ctx, "reload refused: the old configuration stays in effect", slog.String("problem", p.String()))
		}
	}
}
