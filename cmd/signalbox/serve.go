// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/internal/headroom"
)

// serveFlags are what a command line says beside the configuration.
type serveFlags struct {
	config string // the file; empty for the one that is found
	listen string // the address instead of the file's; empty for that
	stdio  bool   // serve the program that started us
}

// http reports whether there is to be a listener: always, but for a client on
// stdio that asked for nothing more.
func (f serveFlags) http() bool { return !f.stdio || f.listen != "" }

// newServe makes the command that serves.
func newServe(e *env) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the MCP endpoint",
		Long: `Serve the MCP endpoint, on HTTP or, with --stdio, to the program that started it.

Without --config it takes ` + configNames + ` from the
working directory, in this order, or serves a demo. A changed
file is put to work at once, but for what it would run anew where a backend or
another user may have written it: that waits for 'signalbox reload' or SIGHUP. A file
with a mistake is refused, and what was served before goes on. SIGTERM and SIGINT let running calls end; a
second one cuts them.`,
		Args: argsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), e, f) },
	}
	configFlag(cmd, &f.config)
	addWord(cmd, &f.listen, "listen", "`ADDRESS` to listen on, host:port; port 0 takes a free one (default \"127.0.0.1:7777\")")
	cmd.Flags().BoolVar(&f.stdio, "stdio", false, "serve one client on standard input and output; no HTTP unless --listen is given too")
	return cmd
}

// service is serve at work.
type service struct {
	*env
	flags   serveFlags
	source  source
	cfg     *signalbox.Config // as it was when the service started
	log     *slog.Logger
	gateway *signalbox.Gateway
	http    *endpoint  // nil where there is only stdio
	stdio   chan error // what serving the one client ended with; then closed
	control *control   // nil where no command reaches it

	input *input // of the one client

	running   *signalbox.Config // the last that was put to work
	exposure  config.Exposure   // of the file, to the backends so far
	signalled bool              // a signal has ended loop
}

// serve runs until a signal, the end of standard input, or a failure.
func serve(ctx context.Context, e *env, f serveFlags) error {
	defer headroom.Keep()()
	j := newJournal(e.Stderr)
	defer j.close()
	// All that serving says goes there, and not the log alone: a line to paste can
	// hold up a gateway as well as a record can.
	own := *e
	own.Stderr = j
	s := &service{env: &own, flags: f, source: e.source(f.config), stdio: make(chan error, 1)}
	if f.stdio {
		s.input = &input{Reader: e.Stdin}
	}
	// A reader that goes away is no reason to end the calls of others: a process
	// that takes this signal gets an error from its writes instead.
	_, obey := e.Signals(syscall.SIGPIPE)
	defer obey()
	// Before anything is started, so that a signal never finds it half done.
	signals, stop := e.Signals(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.control.close()
	// After it is served: a file that cannot be watched, as on some network file
	// systems, is no reason not to serve it.
	w, err := watch(s.source.path)
	if err != nil {
		s.log.WarnContext(ctx, "changes of the file are not seen; send SIGHUP instead", slog.Any("error", err))
	}
	defer w.close()
	s.announce()
	err = s.loop(ctx, signals, w)
	s.control.end()
	return errors.Join(err, s.drain(ctx, signals, stop))
}

// open makes the listener and the gateway and begins to serve. The listener
// comes first: where the port is taken no backend is started in vain.
func (s *service) open(ctx context.Context) error {
	var err error
	if s.cfg, err = s.load(); err != nil {
		return err
	}
	s.log = newLogger(s.Stderr, s.cfg)
	if s.flags.http() {
		if s.http, err = listen(ctx, s.cfg.Effective()); err != nil {
			return err
		}
	}
	s.announceSource(ctx)
	s.running = s.cfg
	s.exposure.Add(s.cfg)
	opt := s.source.options(s.log)
	opt.OneClient = !s.flags.http()
	if !s.flags.http() {
		// A client shows standard error to its user, in whose view our own messages would be lost.
		opt.ProcessLevel = slog.LevelDebug
	}
	s.gateway, err = signalbox.New(*s.cfg, opt) //nolint:contextcheck // it lives until it is ended
	if err != nil {
		s.http.close(ctx)
		return err
	}
	s.openControl(ctx) // first: a client that is served knows that commands reach it
	s.http.serve(s.gateway, s.log)
	if s.flags.stdio {
		// Ends with either pipe or with the gateway; drain waits for it.
		go s.serveStdio(ctx)
	}
	return nil
}

// serveStdio serves the one client, and says what that ended with: with nil at the
// end of its input, which is how such a client says that it is done
// (2026-07-28, basic/transports/stdio, "Shutdown").
func (s *service) serveStdio(ctx context.Context) {
	defer close(s.stdio)
	s.stdio <- s.gateway.ServeStdio(ctx, s.input, s.Stdout)
}

// load reads the configuration and lays over it what the command line says.
func (s *service) load() (*signalbox.Config, error) {
	cfg, err := s.source.load()
	if err != nil {
		return nil, err
	}
	if s.flags.listen != "" {
		cfg.Listen = s.flags.listen
	}
	localDrain(cfg, s.flags.http())
	if s.flags.http() {
		leaveSelf(cfg)
	}
	return cfg, blameFlag(cfg.Validate(), s.flags.listen)
}

// blameFlag names the flag in problems of the address that it gave.
func blameFlag(err error, listen string) error {
	var problems signalbox.Problems
	if listen == "" || !errors.As(err, &problems) {
		return err
	}
	// The rest of what is wrong with an address is the same wherever it came from.
	for i := range problems {
		if problems[i].Path == "listen" {
			problems[i].Path = "--listen " + listen
		}
	}
	return problems
}

// loop keeps serving, and returns when that is to end: without an error where
// somebody wanted it.
func (s *service) loop(ctx context.Context, signals <-chan os.Signal, w *watcher) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.stdio:
			if ctx.Err() != nil {
				err = nil // the end that was wanted reached the client first
			}
			return err
		case err := <-s.http.failed():
			return err
		case <-w.changed():
			// The folder has other files too, and editors write the same twice.
			if w.differs() {
				s.reloadChange(ctx)
			}
		case ask := <-s.control.asks():
			cfg, err := s.reload(ctx)
			ask <- answerTo(cfg, err)
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				s.signalled = true
				return nil
			}
			// Whether or not the file differs: what it refers to may.
			_, _ = s.reload(ctx) // the log says what came of it
		}
	}
}

// announceSource says what is served, before the backends have anything to say.
func (s *service) announceSource(ctx context.Context) {
	switch {
	case s.source.isDemo():
		fmt.Fprintf(s.Stderr, "%s: serving the built-in demo\n", s.nothingFound())
	case s.flags.config == "":
		fmt.Fprintf(s.Stderr, "serving what %s says\n", s.source.path)
	}
	for _, note := range s.cfg.Notes {
		s.log.InfoContext(ctx, "note on the configuration", slog.String("note", note.String()))
	}
}

// announce says where it is served: that line is what scripts wait for, and it
// comes when it is true.
func (s *service) announce() {
	if s.http == nil {
		return
	}
	fmt.Fprintf(s.Stderr, "listening on %s\n", s.http.url)
	if s.source.isDemo() {
		fmt.Fprintf(s.Stderr, paste, s.http.url)
	}
}

// paste is what to tell a client, in the two ways that clients have.
const paste = `to use it from a client:
  claude mcp add --transport http signalbox %[1]s
or in the client's file of servers:
  {"mcpServers": {"signalbox": {"type": "http", "url": "%[1]s"}}}
`
