// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
)

func newReload(e *env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration file of a running gateway",
		Long: `Reload the configuration file in all gateways of this user that serve it. A file with
a mistake is rejected, and the previous configuration stays in effect.

Without --config, the file that serve would use here is reloaded. To reload a gateway of
another user, or in a container, send SIGHUP to its process.`,
		Args: argsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.askReload(cmd.Context(), file) },
	}
	configFlag(cmd, &file)
	return cmd
}

// askReload asks every gateway that serves a file to reload it, and prints the results.
func (e *env) askReload(ctx context.Context, flag string) error {
	src := e.source(flag)
	if !src.hasFile() {
		return usagef("%s; name the file with --config", e.nothingFound())
	}
	folder, err := e.stateFolder(src.path)
	if err != nil {
		return fmt.Errorf("reload %s: %w", src.path, err)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	asked, failed := 0, 0
	for _, socket := range socketsIn(folder) {
		answer, err := askSocket(ctx, socket)
		if isGone(err) {
			continue
		}
		asked++
		if err != nil || len(answer.Problems) > 0 {
			failed++
		}
		if err := e.printReload(src.path, answer, err); err != nil {
			return err
		}
	}
	switch {
	case asked == 0:
		return fmt.Errorf("no running gateway of this user serves %s; start one with 'signalbox serve', or send SIGHUP to the process if it is another user's", src.path)
	case failed > 0:
		return fmt.Errorf("reload %s: %s of %d rejected it; the previous configuration stays in effect", src.path, plural(failed, "gateway"), asked)
	}
	return nil
}

// printReload prints the result of one reload, each problem on a line.
func (e *env) printReload(file string, a *reloadResult, err error) error {
	if err != nil {
		return e.printText(e.Stdout, fmt.Sprintf("%s: %v\n", file, err))
	}
	text := ""
	for _, p := range a.Problems {
		text += p + "\n"
	}
	if text == "" {
		text = fmt.Sprintf("%s: reloaded by process %d, %s\n", file, a.Process, plural(a.Backends, "backend"))
	}
	return e.printText(e.Stdout, text)
}

func askSocket(ctx context.Context, socket string) (*reloadResult, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	transport := socketTransport(socket)
	defer transport.CloseIdleConnections()
	resp, err := roundTrip(ctx, transport, http.MethodPost, socketURL(reloadPath), nil)
	if err != nil {
		return nil, err
	}
	a := new(reloadResult)
	if err := decode(resp.body, a); err != nil || resp.code != http.StatusOK {
		return nil, fmt.Errorf("the gateway responded with HTTP status %d; it may be another version of Signalbox", resp.code)
	}
	return a, nil
}

// reload reloads the configuration because the operator asked for it. An invalid
// configuration is rejected: all problems are logged, and nothing changes.
func (s *service) reload(ctx context.Context) (*config.Config, error) {
	// Logged even in the demo: silence would read as success.
	if s.source.isDemo() {
		s.log.InfoContext(ctx, "nothing to reload: the demo has no configuration file")
		return nil, errNoFile
	}
	if !s.source.hasFile() {
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
		exposed := s.exposure.Of(s.source.path)
		for _, file := range s.running.NewEnvFiles(&cfg) {
			exposed = append(exposed, s.exposure.Of(file)...)
		}
		if file := cmp.Or(cfg.SecretsFile(), s.running.SecretsFile()); file != "" {
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
