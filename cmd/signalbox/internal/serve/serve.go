// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serve runs a gateway: the command serve with its listener, its socket for other
// commands, its log, reloads, and the drain at its end.
//
// The function serve is a gateway from its start to its end: it opens the listener and the
// gateway, waits in one loop for signals and changes of the file, and drains at the end.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/logs"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/gctune"
	"github.com/signalbox-mcp/signalbox/internal/journal"
)

type serveFlags struct {
	config string // the file; empty means the one that is found
	listen string // overrides the configured address, unless empty
	stdio  bool   // serve the parent process on standard input and output
	demo   bool   // serve the demo, whatever files there are

	as         string        // the principal of the client on standard input; empty is the anonymous one
	profile    string        // the part that the client on standard input is served; empty means everything
	idle       time.Duration // end after so long without clients; 0 means never
	background bool          // started by attach: log to a file, and report the start on standard error
	apart      bool          // only start the gateway, which then has no parent
}

// http reports whether to listen: always, except for --stdio without --listen.
func (f serveFlags) http() bool { return !f.stdio || f.listen != "" }

// New returns the command that serves the MCP endpoint.
func New(e *command.Env) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the MCP endpoint",
		Long: `Serve the MCP endpoint on HTTP or, with --stdio, on standard input and output.

Without --config, the first of ` + source.Names + `
in the working directory is used, or else signalbox.yaml in the user's folder for
configurations ($XDG_CONFIG_HOME/signalbox, by default ~/.config/signalbox). If none
exists, HTTP serves the built-in demo if standard error is a terminal, and --stdio serves
no tools and tells the client what to run.

A changed file is reloaded automatically, with one exception: if a backend or another
user may have written it, changes that would run something new wait for 'signalbox reload'
or SIGHUP. A file with a mistake is rejected, and the previous configuration stays in
effect. SIGTERM and SIGINT let running calls end; a second signal cancels them.`,
		Args: command.ArgsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.apart {
				return startApart(e, f.config)
			}
			return serve(cmd.Context(), e, f)
		},
	}
	source.Flag(cmd, &f.config)
	command.AddWord(cmd, &f.listen, "listen", "", "`ADDRESS` to listen on, host:port; port 0 means any free port (default \"127.0.0.1:7777\")")
	cmd.Flags().BoolVar(&f.demo, "demo", false, "serve the built-in demo, whatever files there are")
	profiles.Flag(cmd, &f.profile, "with --stdio, serve only this `PROFILE` to the client; over HTTP each profile has a path of its own, such as /mcp/p/PROFILE")
	command.AddWord(cmd, &f.as, "as", "", "with --stdio, the principal `NAME` of the client, for the audit record and what depends on it")
	cmd.Flags().DurationVar(&f.idle, "end-when-idle", 0, "end `DURATION` after the last client has left, such as 10m (default: never)")
	cmd.Flags().BoolVar(&f.background, "background", false, "log to the state folder, and report the start on standard error")
	cmd.Flags().BoolVar(&f.apart, "apart", false, "start the command without this flag in the background, and end")
	for _, name := range []string{"background", "apart"} {
		_ = cmd.Flags().MarkHidden(name) // the flag was added above
	}
	cmd.Flags().BoolVar(&f.stdio, "stdio", false, "serve one client on standard input and output; no HTTP unless --listen is given too")
	return cmd
}

// service is a running serve command.
type service struct {
	*command.Env
	flags    serveFlags
	source   source.Source
	terminal bool           // standard error is one
	cfg      *config.Config // the configuration at the start
	log      *slog.Logger
	gateway  *signalbox.Gateway
	http     *endpoint        // nil if there is only stdio
	stdio    chan error       // receives the error of ServeStdio; then closed
	control  *controlSocket   // nil without a socket
	id       string           // names the socket and the log
	journal  *journal.Journal // the last records of log; nil without a file
	life     *lifetime        // nil without --end-when-idle
	pages    signInPages      // without an endpoint on HTTP

	controlErr error // why there is no socket

	input *input // of the client on stdio; nil without one

	running   *config.Config  // the current configuration
	exposure  config.Exposure // of the file, to all backends so far
	signalled bool            // a signal has ended loop
}

var errProfileOverHTTP = errors.New("--profile needs --stdio; over HTTP each profile has its own path, such as /mcp/p/NAME")

// source returns what to serve. The demo is only for a person, and says that it is one.
func (f serveFlags) source(e *command.Env) (source.Source, error) {
	if f.demo && f.config != "" {
		return source.Source{}, command.Usagef("both --demo and --config; choose one")
	}
	if f.profile != "" && !f.stdio {
		return source.Source{}, command.Usagef("%w", errProfileOverHTTP)
	}
	if f.as != "" && !f.stdio {
		return source.Source{}, command.Usagef("--as is for the client of --stdio; over HTTP \"auth\" of the configuration names principals")
	}
	if strings.ContainsFunc(f.as, unicode.IsControl) {
		return source.Source{}, command.Usagef("--as has a control character in it")
	}
	if f.idle < 0 || f.idle > 0 && f.stdio {
		return source.Source{}, command.Usagef("--end-when-idle takes a positive duration, and not with --stdio, which ends with its client")
	}
	src := source.Find(e, f.config)
	switch {
	case f.demo:
		src.Path = ""
	case src.HasFile():
	case f.stdio:
		src.None = source.NoServers(e)
	case !e.Terminal(e.Stderr):
		return source.Source{}, fmt.Errorf("%s; name the file with --config, or use --demo for the built-in demo", source.NothingFound(e))
	}
	return src, nil
}

// OneClient serves a client on standard input and output, without a configuration file, as
// 'signalbox serve --stdio' does.
func OneClient(ctx context.Context, e *command.Env, profile string) error {
	return serve(ctx, e, serveFlags{stdio: true, profile: profile})
}

// serve runs until a signal, the end of standard input, or a failure.
func serve(ctx context.Context, e *command.Env, f serveFlags) (err error) {
	src, err := f.source(e)
	if err != nil {
		return err
	}
	to := e.Stderr
	if f.background {
		// The log is kept in files. Standard error is for the start only.
		to = io.Discard
		keepCrashes(e, src.Path)
	}
	defer gctune.Keep()()
	// A closed standard error must not end the calls of clients. With SIGPIPE caught,
	// writes return an error instead. It is caught until j is closed, which writes the rest.
	_, obey := e.Signals(syscall.SIGPIPE)
	defer obey()
	j := logs.NewAsyncWriter(to)
	defer j.Close()
	// Everything goes through the writer and not only the log: any write to standard error
	// can block.
	own := *e
	own.Stderr = j
	s := &service{Env: &own, flags: f, terminal: e.Terminal(e.Stderr), source: src, stdio: make(chan error, 1), id: newGatewayName()}
	if f.stdio {
		s.input = &input{Reader: e.Stdin}
	}
	// Before anything is started, so that a signal finds no half-started service.
	signals, stop := e.Signals(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	defer s.endLog()
	defer func() { s.noteEnd(ctx, err) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.control.close() //nolint:contextcheck // it has a time limit of its own, after ctx
	defer s.endLog()        // before the socket: its readers get the last records
	// After serving has started: a file that cannot be watched, as on some network file
	// systems, is no reason not to serve it.
	w, err := watch(s.source.Path)
	if err != nil {
		s.log.WarnContext(ctx, "the configuration file cannot be watched for changes; send SIGHUP after a change", slog.Any("error", err))
	}
	defer w.close()
	s.announce()
	if f.background {
		if s.control == nil {
			return errors.Join(fmt.Errorf("no control socket: %w", s.controlErr), s.drain(ctx, signals, stop))
		}
		_, _ = io.WriteString(e.Stderr, servingLine) // fails if attach was killed
	}
	if s.life != nil {
		ctx, end := context.WithCancel(ctx)
		defer end()
		go s.life.run(ctx) // ends with ctx, which the end of serve cancels
	}
	err = s.loop(ctx, signals, w)
	s.control.end()
	return errors.Join(err, s.drain(ctx, signals, stop))
}

// open creates the listener and the gateway and starts serving. The listener comes first:
// if the port is in use, no backend is started.
func (s *service) open(ctx context.Context) error {
	var err error
	if s.cfg, err = s.load(); err != nil {
		return err
	}
	if err := profiles.Check(s.cfg, s.flags.profile); err != nil {
		return err
	}
	s.openLog(ctx)
	if s.flags.http() {
		if s.http, err = listen(ctx, s.cfg.Effective()); err != nil && !s.withoutPort(ctx, err) {
			return err
		}
	}
	s.announceSource(ctx)
	s.running = s.cfg
	s.exposure.Add(s.cfg)
	opt := s.source.Options(s.log)
	opt.OneClient = !s.flags.http()
	opt.ListsFolder = s.source.ListsFolder(s.Env)
	opt.StateFolder = s.source.StateFolder(s.Env)
	opt.SignInPages = s.pages.open
	if s.http != nil {
		opt.SignInPages = func() (string, func(), error) { return s.http.base(), func() {}, nil }
		opt.NotFound = http.HandlerFunc(s.http.serveOther)
	}
	opt.LogCalls = s.terminal
	if calls := s.cfg.Log.Calls; calls != nil {
		opt.LogCalls = *calls
	}
	opt.LoginPath = s.LoginPath
	opt.ProcessLevel = s.processLevel()
	s.gateway, err = signalbox.New(*s.cfg, opt) //nolint:contextcheck // the gateway lives until Shutdown
	if err != nil {
		s.http.close(ctx)
		return err
	}
	s.pages.handler, s.pages.log = http.HandlerFunc(s.gateway.ServeSignIn), s.log
	if s.flags.idle > 0 {
		s.life = newLifetime(s.flags.idle, s.hasClients)
	}
	s.openControl(ctx) // first: a client that is served may expect commands to work
	if s.http != nil {
		s.http.life = s.life
	}
	s.http.serve(s.gateway, s.log)
	if s.flags.stdio {
		// Ends with either pipe or with the gateway; drain waits for it.
		go s.serveStdio(ctx)
	}
	return nil
}

// withoutPort reports whether to serve on the socket only: attach needs no port.
func (s *service) withoutPort(ctx context.Context, err error) bool {
	if _, taken := errors.AsType[portTakenError](err); !taken || !s.flags.background {
		return false
	}
	s.log.WarnContext(ctx, "the gateway serves attached clients only", slog.Any("error", err))
	return true
}

// hasClients reports whether a client has a session or a request.
func (s *service) hasClients() bool {
	status := s.gateway.Status()
	return status.Sessions > 0 || status.InFlight > 0
}

// processLevel returns the level of records about the processes of backends. A client on
// stdio shows standard error to its user, and the backends' lines would hide our own.
func (s *service) processLevel() slog.Level {
	if s.flags.http() {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// serveStdio serves the one client, and sends the error to s.stdio: nil at the end of the
// input, with which a client ends the session
// (2026-07-28, basic/transports/stdio, "Shutdown").
func (s *service) serveStdio(ctx context.Context) {
	defer close(s.stdio)
	ctx = signalbox.WithProfile(ctx, s.flags.profile)
	if s.flags.as != "" {
		s.stdio <- s.gateway.ServeStdioAs(ctx, s.flags.as, s.input, s.Stdout)
		return
	}
	s.stdio <- s.gateway.ServeStdio(ctx, s.input, s.Stdout)
}

// load reads the configuration and applies the flags to it.
func (s *service) load() (*config.Config, error) {
	cfg, err := s.source.Load()
	if err != nil {
		return nil, err
	}
	if s.flags.listen != "" {
		cfg.Listen = s.flags.listen
	}
	defaultLocalDrain(cfg, s.flags.http())
	if s.flags.http() {
		source.LeaveSelf(cfg)
	}
	err = cfg.Validate()
	// The messages are the same for an address of the file; the path names the flag.
	if problems, ok := errors.AsType[config.Problems](err); ok && s.flags.listen != "" {
		for i := range problems {
			if problems[i].Path == "listen" {
				problems[i].Path = "--listen " + s.flags.listen
			}
		}
	}
	return cfg, err
}

// loop runs until serving has to end. It returns nil if the end was requested.
func (s *service) loop(ctx context.Context, signals <-chan os.Signal, w *watcher) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.stdio:
			if ctx.Err() != nil {
				err = nil // the requested end reached the client first
			}
			return err
		case err := <-s.http.failed():
			return err
		case <-w.changed():
			// The folder has other files, and editors write the same content twice.
			if w.differs() {
				s.reloadChange(ctx)
			}
		case <-s.life.end():
			s.log.InfoContext(ctx, "no client is left")
			return nil
		case ask := <-s.control.reloads():
			cfg, err := s.reloadFor(ctx, w)
			ask <- newReloadResult(cfg, err)
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				s.signalled = true
				return nil
			}
			// Even if the file is the same: what it refers to may have changed.
			_, _ = s.reloadFor(ctx, w) // the log has the result
		}
	}
}

// announceSource prints which configuration is served, before the backends log anything.
func (s *service) announceSource(ctx context.Context) {
	switch {
	case s.flags.demo:
		fmt.Fprintln(s.Stderr, "serving the built-in demo")
	case s.source.IsDemo():
		fmt.Fprintf(s.Stderr, "%s: serving the built-in demo\n", source.NothingFound(s.Env))
	case !s.source.HasFile():
		fmt.Fprintf(s.Stderr, "%s: serving no tools; name the file with --config\n", source.NothingFound(s.Env))
	case s.flags.config == "":
		fmt.Fprintf(s.Stderr, "serving the configuration %s\n", s.source.Path)
	}
	for _, note := range s.cfg.Notes {
		s.log.InfoContext(ctx, "note on the configuration", slog.String("note", note.String()))
	}
}

// announce prints the address. Scripts wait for that line, which is printed once the
// address is served.
func (s *service) announce() {
	if s.http == nil {
		return
	}
	fmt.Fprintf(s.Stderr, "listening on %s\n", s.http.url)
	if s.terminal || s.source.IsDemo() {
		fmt.Fprintf(s.Stderr, clientHint, s.http.url)
	}
}

// clientHint shows how to configure a client, in the two usual ways.
const clientHint = `to use it from a client:
  claude mcp add --transport http signalbox %[1]s
or in the client's file of servers:
  {"mcpServers": {"signalbox": {"type": "http", "url": "%[1]s"}}}
`
