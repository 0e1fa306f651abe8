// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package target opens what a command talks to: the running gateway of a configuration
// file, a gateway started for the command, or the MCP server at a URL. The flags that
// select it are the same for all commands.
package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/logs"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/version"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// TokenVariable holds the bearer token for --url. A token is not an argument, as all users
// of the machine can see those.
const TokenVariable = "SIGNALBOX_TOKEN"

// Help is the part of the help about the target, for all commands that have one.
const Help = `The request goes to the running gateway that serves the configuration file. If there is
none, or with --alone, the command starts a gateway of its own. With --url it goes to the
MCP server at that URL.`

// Flags select what a command talks to.
type Flags struct {
	Config  string   // the gateway's file; empty means the one that is found
	Alone   bool     // start a gateway even if one is running
	URL     string   // a server instead of a gateway
	headers []string // for the server at URL, each as 'Name: value'
	Profile string   // of the gateway; empty means everything
	Verbose bool     // print the log; implies alone, as a running gateway has its own log
	Lists   string   // the folder with kept lists that a gateway for the command uses, or ""
}

// Add adds the flags to a command. All commands with a target have the same ones, so that
// a command line for a list also works for a call.
func (f *Flags) Add(cmd *cobra.Command) {
	source.Flag(cmd, &f.Config)
	command.AddWord(cmd, &f.URL, "url", "", "talk to the MCP server at this `URL` instead, such as 127.0.0.1:7777 for a gateway; "+TokenVariable+" may hold a bearer token for it")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "send a header with --url, as `'Name: value'`; may be repeated")
	profiles.Flag(cmd, &f.Profile, "only what a `PROFILE` of the gateway offers")
	f.AddStart(cmd)
}

// AddStart adds the flags for the start of a gateway.
func (f *Flags) AddStart(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.Alone, "alone", false, "start the backends even if a gateway with them is running")
	cmd.Flags().BoolVarP(&f.Verbose, "verbose", "v", false, "print the log, including what the backends write to standard error; implies --alone")
}

// Target is what a command talks to: a gateway started for it, a running one, or a server.
type Target struct {
	mcp.Handler
	URL     *url.URL                                         // of a server; nil for a gateway
	token   bool                                             // a token is sent to the server
	Profile string                                           // of the gateway, or ""
	Started bool                                             // the gateway was started for the command
	Status  func(context.Context) (*signalbox.Status, error) // nil for a server
	close   func() error

	// ToolBackends returns the backend of each tool, by the tool's name; nil for a server.
	ToolBackends func(context.Context) (map[string]string, error)

	// Definitions returns what servers offer, compared with the lock file; nil for a server.
	Definitions func(context.Context) (*signalbox.Definitions, error)

	// Calls returns the latest calls of a gateway; nil for a server.
	Calls func(context.Context, signalbox.CallFilter) ([]signalbox.CallRecord, error)

	Gateway *signalbox.Gateway // nil unless Started
}

// firstListTimeout is how long a command waits for backends that are starting, unless the
// configuration sets limits.firstList. It is longer than the default of a gateway that
// serves, because a command lists only once.
const firstListTimeout = 15 * time.Second

// open returns the target of the flags. Closing it ends all processes that were started for
// it.
func (f *Flags) open(ctx context.Context, e *command.Env) (*Target, error) {
	switch {
	case f.URL != "" && f.Config != "":
		return nil, command.Usagef("both --url and --config; choose one")
	case f.URL != "" && f.Alone:
		return nil, command.Usagef("both --url and --alone; choose one")
	case f.URL != "":
		return f.dial(e)
	case len(f.headers) > 0:
		return nil, command.Usagef("--header needs --url; set the headers for a backend in the configuration")
	}
	src := source.Find(e, f.Config)
	if src.IsDemo() {
		e.PrintError(source.NothingFound(e) + ": using the built-in demo")
	} else if !f.Alone && !f.Verbose {
		if t, err := f.join(ctx, e, src.Path); t != nil || err != nil {
			return t, err
		}
	}
	return f.start(e, src) //nolint:contextcheck // the target lives until it is closed
}

func (f *Flags) start(e *command.Env, src source.Source) (*Target, error) {
	cfg, err := src.Load()
	if err != nil {
		return nil, err
	}
	if err := profiles.Check(cfg, f.Profile); err != nil {
		return nil, err
	}
	// A configured value applies to commands, too.
	if cfg.Limits.FirstList == 0 {
		cfg.Limits.FirstList = firstListTimeout
	}
	if f.Lists != "" {
		for i := range cfg.Servers {
			cfg.Servers[i].Idle = 0 // with "none", it would be started although its lists are kept
		}
	}
	opt := src.Options(f.logger(e, cfg))
	opt.Grace = PromptGrace
	opt.LoginPath = e.LoginPath
	opt.ListsFolder = f.Lists
	opt.StateFolder = src.StateFolder(e) // with the sign-ins of 'signalbox login'
	opt.LogCalls = f.Verbose
	if calls := cfg.Log.Calls; calls != nil {
		opt.LogCalls = *calls
	}
	gw, err := signalbox.New(*cfg, opt)
	if err != nil {
		return nil, err
	}
	t := &Target{
		Handler: profiled{gw, f.Profile},
		Started: true,
		Status: func(context.Context) (*signalbox.Status, error) {
			s := gw.Status()
			return &s, nil
		},
		ToolBackends: func(context.Context) (map[string]string, error) { return gw.ToolBackends(), nil },
		Definitions: func(ctx context.Context) (*signalbox.Definitions, error) {
			all := gw.Definitions()
			gw.ReadAppTools(ctx, all)
			gw.ReadPages(ctx, all)
			return all, nil
		},
		Calls: func(_ context.Context, f signalbox.CallFilter) ([]signalbox.CallRecord, error) {
			return gw.Calls(f).Calls, nil
		},
		Gateway: gw,
		close:   gw.Close,
	}
	t.only(f.Profile)
	return t, nil
}

// PromptGrace bounds how long a server that ignores the end of its input delays the end of
// a command. The command already has its result.
const PromptGrace = 300 * time.Millisecond

func (f *Flags) dial(e *command.Env) (*Target, error) {
	u, err := ParseURL(f.URL)
	if err != nil {
		return nil, err
	}
	if f.Profile != "" {
		u.Path = profiles.Path(u.Path, f.Profile)
	}
	header, err := Header(e, f.headers)
	if err != nil {
		return nil, err
	}
	c := client.NewHTTP(u.String(), client.Config{
		Name:   u.Host,
		Header: header,
		Info:   implementation(),
		Logger: f.logger(e, &config.Config{}),
	})
	return &Target{Handler: c, URL: u, token: header.Get("Authorization") != "", close: c.Close}, nil
}

// ParseURL parses the value of --url. An address of this machine without a scheme is that
// of a gateway with the default path. Any other host needs a scheme, which decides whether a
// token is encrypted.
func ParseURL(given string) (*url.URL, error) {
	full := given
	if host, _, _ := strings.Cut(given, "/"); source.IsLocal(host) {
		full = "http://" + given
	}
	u, err := url.Parse(full)
	if err == nil && full != given && strings.Trim(u.Path, "/") == "" {
		u.Path = new(config.Config).Effective().Path
	}
	if err == nil && u.User != nil || err != nil && strings.Contains(given, "@") {
		return nil, command.Usagef("--url holds credentials; put a bearer token into %s instead", TokenVariable)
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, command.Usagef("--url %q is not an http or https URL, such as http://127.0.0.1:7777/mcp", given)
	}
	return u, nil
}

// Header returns the headers of the flag --header, and the token of the environment.
func Header(e *command.Env, lines []string) (http.Header, error) {
	h := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		switch {
		case !ok || name == "":
			return nil, command.Usagef("--header %q is not of the form 'Name: value'", line)
		case name == "Authorization":
			return nil, command.Usagef("--header would show the credentials of Authorization to all users of this machine; put the token into %s instead", TokenVariable)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	// An empty value is nearly always caused by another variable that is unset. The server's
	// response to a request without the token would be misleading.
	token, set := e.LookupEnv(TokenVariable)
	if set && token == "" {
		return nil, fmt.Errorf("%s is set and empty; unset it, or put a token into it", TokenVariable)
	}
	if set {
		h.Set("Authorization", "Bearer "+token)
	}
	return h, nil
}

// logger returns a logger that discards everything unless the command is verbose: the
// command itself reports what went wrong.
func (f *Flags) logger(e *command.Env, cfg *config.Config) *slog.Logger {
	if !f.Verbose {
		return slog.New(slog.DiscardHandler)
	}
	return logs.NewLogger(e.Stderr, cfg)
}

// ClientName is the name of the commands as clients of a gateway.
const ClientName = "signalbox"

// implementation returns the client info of the command.
func implementation() []byte {
	out := jsonscan.AppendString([]byte(`{"name":`), ClientName)
	out = append(append(out, `,"version":`...), jsonscan.AppendString(nil, version.Of(version.Info()))...)
	return append(out, '}')
}

// NewRequest returns a request of the command, which can answer questions for a form.
func NewRequest(method string, params []byte) (*mcp.Request, error) {
	req, err := mcp.NewRequest(method, params)
	if err != nil {
		return nil, err
	}
	req.Client = &mcp.Peer{
		Version:      mcp.LatestModern,
		Info:         implementation(),
		Capabilities: []byte(`{"elicitation":{"form":{}}}`),
	}
	return req, nil
}

// With calls work with the target until it returns or is interrupted, and then prints
// warnings about the gateway's backends.
func (f *Flags) With(ctx context.Context, e *command.Env, work func(context.Context, *Target) error) error {
	t, err := f.open(ctx, e)
	if err != nil {
		return err
	}
	// The backends end after the work and before the command reports its error, so that
	// the error is the last line.
	ctx, done := e.Interruptible(ctx)
	err = work(ctx, t)
	t.warn(context.WithoutCancel(ctx), e)
	interrupted := ctx.Err() != nil
	done()
	cerr := t.close()
	switch {
	case interrupted && err != nil:
		return fmt.Errorf("interrupted: %w", err)
	case err != nil && t.URL != nil:
		return hint(err, t.URL, t.token)
	case err != nil:
		return err
	case cerr != nil:
		return fmt.Errorf("end the backends: %w", cerr)
	}
	return nil
}

// warn prints which backends are not live, and the gateway's problems. They are not
// errors: the other backends work.
func (t *Target) warn(ctx context.Context, e *command.Env) {
	if t.Status == nil {
		return
	}
	s, err := t.Status(ctx)
	if err != nil {
		e.PrintError(fmt.Sprintf("warning: cannot read the status of the gateway: %v", err))
		return
	}
	for _, b := range s.Backends {
		if control.IsUp(&b) {
			continue
		}
		text := fmt.Sprintf("warning: backend %q is %s", b.Name, b.State)
		if b.Reason != "" {
			text += ": " + b.Reason
		}
		e.PrintError(text)
	}
	for _, p := range s.Problems {
		e.PrintError("warning: " + p)
	}
}

// hint adds a hint to an error of the server at target, if there is one for it. It is on a
// line of its own, as the errors of servers are long.
func hint(err error, target *url.URL, hasToken bool) error {
	text := ""
	if own, ok := errors.AsType[*mcp.Error](err); ok && strings.Contains(own.Message, "bearer token") {
		// A gateway's message, in the body of its 401.
		text = tokenHint(hasToken)
	}
	if fault, ok := errors.AsType[*mcp.Fault](err); ok && fault.Outcome == mcp.NotDispatched {
		text = faultHint(fault, target, hasToken)
	}
	if text == "" {
		return err
	}
	return fmt.Errorf("%w\n%s", err, text)
}

// faultHint returns a hint for a request that did not reach the server. It inspects the
// message, as the client does not report the status in a type; transcripts in
// testdata/script hold the texts.
func faultHint(fault *mcp.Fault, target *url.URL, hasToken bool) string {
	switch {
	case errors.Is(fault, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s; start a gateway with 'signalbox serve', or check the URL", target.Host)
	case strings.Contains(fault.Message, "HTTP status 401"):
		return tokenHint(hasToken)
	case !strings.Contains(fault.Message, "HTTP status"):
		return ""
	case strings.Trim(target.Path, "/") == "":
		return fmt.Sprintf("the URL has no path, but MCP endpoints have one; did you mean %s?", target.JoinPath("mcp"))
	case strings.Contains(fault.Message, "HTTP status 404"):
		return fmt.Sprintf("the server has nothing at the path %s; check the URL", target.Path)
	default:
		return "check that it is an MCP server; --verbose shows more"
	}
}

// tokenHint returns a hint about the token, without the token itself.
func tokenHint(hasToken bool) string {
	if hasToken {
		return "the token in " + TokenVariable + " was not accepted; check it"
	}
	return "put a bearer token for the server into " + TokenVariable
}

// ServerOf describes the server of a tool for the user. The name of a gateway's tool
// begins with the configured name of its server.
func (t *Target) ServerOf(tool string) string {
	if t.URL == nil {
		return "the server of " + tool
	}
	return "the server at " + t.URL.Host
}

// AwaitBackends waits until a gateway that was started for the command has the lists of
// its backends. Before that it knows no tool, since a call never fetches a list.
func (t *Target) AwaitBackends(ctx context.Context) error {
	if !t.Started {
		return nil
	}
	// The gateway delays its first list until all backends have been listed, or until
	// limits.firstList has passed. Any of the lists would do.
	_, _, err := ToolList().page(ctx, t, nil)
	return err
}

// RequireLive returns an error if a backend of the gateway is not live.
func (t *Target) RequireLive(ctx context.Context) error {
	s, err := t.Status(ctx)
	if err != nil {
		return fmt.Errorf("read the status of the gateway: %w", err)
	}
	var missing []string
	for i := range s.Backends {
		if b := &s.Backends[i]; !control.IsUp(b) {
			missing = append(missing, b.Name)
		}
	}
	if missing != nil {
		return command.Strictf("%s not live: %s", output.Plural(len(missing), "backend"), strings.Join(missing, ", "))
	}
	return nil
}

// arrivalInterval is how often ShowArrivals looks at the backends.
const arrivalInterval = 100 * time.Millisecond

// ShowArrivals prints each backend as its lists arrive, if standard error is a terminal and the
// gateway was started for the command. stop prints those that have arrived last, and returns
// when nothing more is printed.
func (t *Target) ShowArrivals(ctx context.Context, e *command.Env) (stop func()) {
	if !t.Started || !e.Terminal(e.Stderr) {
		return func() {}
	}
	started := time.Now()
	shown := make(map[string]bool)
	show := func() {
		s, err := t.Status(ctx)
		if err != nil {
			return // warn reports it
		}
		for i := range s.Backends {
			b := &s.Backends[i]
			if !control.IsUp(b) || shown[b.Name] {
				continue
			}
			shown[b.Name] = true
			e.PrintError(fmt.Sprintf("%s: %s, %.1f s", b.Name, control.ItemCounts(b), time.Since(started).Seconds()))
		}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(done)
		tick := time.NewTicker(arrivalInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show()
			case <-ended:
				show()
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-done
	})
}
