// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// tokenVariable holds the bearer token for --url. A token is not an argument, as all users
// of the machine can see those.
const tokenVariable = "SIGNALBOX_TOKEN"

// targetHelp is the part of the help about the target, for all commands that have one.
const targetHelp = `The request goes to the running gateway that serves the configuration file. If there is
none, or with --alone, the command starts a gateway of its own. With --url it goes to the
MCP server at that URL.`

// targetFlags select what a command talks to.
type targetFlags struct {
	config  string   // the gateway's file; empty means the one that is found
	alone   bool     // start a gateway even if one is running
	url     string   // a server instead of a gateway
	headers []string // for the server at url, each as 'Name: value'
	profile string   // of the gateway; empty means everything
	verbose bool     // print the log; implies alone, as a running gateway has its own log
	lists   string   // the folder with kept lists that a gateway for the command uses, or ""
}

// add adds the flags to a command. All commands with a target have the same ones, so that
// a command line for a list also works for a call.
func (f *targetFlags) add(cmd *cobra.Command) {
	configFlag(cmd, &f.config)
	addWord(cmd, &f.url, "url", "", "talk to the MCP server at this `URL` instead, such as 127.0.0.1:7777 for a gateway; "+tokenVariable+" may hold a bearer token for it")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "send a header with --url, as `'Name: value'`; may be repeated")
	profileFlag(cmd, &f.profile, "only what a `PROFILE` of the gateway offers")
	cmd.Flags().BoolVar(&f.alone, "alone", false, "start the backends even if a gateway with them is running")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print the log, including what the backends write to standard error; implies --alone")
}

// target is what a command talks to: a gateway started for it, a running one, or a server.
type target struct {
	mcp.Handler
	url     *url.URL                                         // of a server; nil for a gateway
	token   bool                                             // a token is sent to the server
	profile string                                           // of the gateway, or ""
	isNew   bool                                             // the gateway was started for the command
	status  func(context.Context) (*signalbox.Status, error) // nil for a server
	close   func() error

	// toolBackends returns the backend of each tool, by the tool's name; nil for a server.
	toolBackends func(context.Context) (map[string]string, error)

	explain func(name, profile string) *signalbox.Explanation // nil unless isNew
}

// firstListTimeout is how long a command waits for backends that are starting, unless the
// configuration sets limits.firstList. It is longer than the default of a gateway that
// serves, because a command lists only once.
const firstListTimeout = 15 * time.Second

// open returns the target of the flags. Closing it ends all processes that were started for
// it.
func (f *targetFlags) open(ctx context.Context, e *env) (*target, error) {
	switch {
	case f.url != "" && f.config != "":
		return nil, usagef("both --url and --config; choose one")
	case f.url != "" && f.alone:
		return nil, usagef("both --url and --alone; choose one")
	case f.url != "":
		return f.dial(e)
	case len(f.headers) > 0:
		return nil, usagef("--header needs --url; set the headers for a backend in the configuration")
	}
	src := e.source(f.config)
	if src.isDemo() {
		e.printError(e.nothingFound() + ": using the built-in demo")
	} else if !f.alone && !f.verbose {
		if t, err := f.join(ctx, e, src.path); t != nil || err != nil {
			return t, err
		}
	}
	return f.start(e, src) //nolint:contextcheck // the target lives until it is closed
}

func (f *targetFlags) start(e *env, src source) (*target, error) {
	cfg, err := src.load()
	if err != nil {
		return nil, err
	}
	if err := checkProfile(cfg, f.profile); err != nil {
		return nil, err
	}
	// A configured value applies to commands, too.
	if cfg.Limits.FirstList == 0 {
		cfg.Limits.FirstList = firstListTimeout
	}
	if f.lists != "" {
		for i := range cfg.Servers {
			cfg.Servers[i].Idle = 0 // with "none", it would be started although its lists are kept
		}
	}
	opt := src.options(f.logger(e, cfg))
	opt.Grace = promptGrace
	opt.LoginPath = e.loginPath
	opt.ListsFolder = f.lists
	opt.LogCalls = f.verbose
	if calls := cfg.Log.Calls; calls != nil {
		opt.LogCalls = *calls
	}
	gw, err := signalbox.New(*cfg, opt)
	if err != nil {
		return nil, err
	}
	t := &target{
		Handler: profiled{gw, f.profile},
		isNew:   true,
		status: func(context.Context) (*signalbox.Status, error) {
			s := gw.Status()
			return &s, nil
		},
		toolBackends: func(context.Context) (map[string]string, error) { return gw.ToolBackends(), nil },
		explain:      gw.Explain,
		close:        gw.Close,
	}
	t.only(f.profile)
	return t, nil
}

// promptGrace bounds how long a server that ignores the end of its input delays the end of
// a command. The command already has its result.
const promptGrace = 300 * time.Millisecond

func (f *targetFlags) dial(e *env) (*target, error) {
	u, err := parseTarget(f.url)
	if err != nil {
		return nil, err
	}
	if f.profile != "" {
		u.Path = profilePath(u.Path, f.profile)
	}
	header, err := e.header(f.headers)
	if err != nil {
		return nil, err
	}
	c := client.NewHTTP(u.String(), client.Config{
		Name:   u.Host,
		Header: header,
		Info:   implementation(),
		Logger: f.logger(e, &config.Config{}),
	})
	return &target{Handler: c, url: u, token: header.Get("Authorization") != "", close: c.Close}, nil
}

// parseTarget parses the value of --url. An address of this machine without a scheme is that
// of a gateway with the default path. Any other host needs a scheme, which decides whether a
// token is encrypted.
func parseTarget(given string) (*url.URL, error) {
	full := given
	if host, _, _ := strings.Cut(given, "/"); isLocal(host) {
		full = "http://" + given
	}
	u, err := url.Parse(full)
	if err == nil && full != given && strings.Trim(u.Path, "/") == "" {
		u.Path = new(config.Config).Effective().Path
	}
	if err == nil && u.User != nil || err != nil && strings.Contains(given, "@") {
		return nil, usagef("--url holds credentials; put a bearer token into %s instead", tokenVariable)
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("--url %q is not an http or https URL, such as http://127.0.0.1:7777/mcp", given)
	}
	return u, nil
}

// header returns the headers of the flag --header, and the token of the environment.
func (e *env) header(lines []string) (http.Header, error) {
	h := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		switch {
		case !ok || name == "":
			return nil, usagef("--header %q is not of the form 'Name: value'", line)
		case name == "Authorization":
			return nil, usagef("--header would show the credentials of Authorization to all users of this machine; put the token into %s instead", tokenVariable)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	// An empty value is nearly always caused by another variable that is unset. The server's
	// response to a request without the token would be misleading.
	token, set := e.LookupEnv(tokenVariable)
	if set && token == "" {
		return nil, fmt.Errorf("%s is set and empty; unset it, or put a token into it", tokenVariable)
	}
	if set {
		h.Set("Authorization", "Bearer "+token)
	}
	return h, nil
}

// logger returns a logger that discards everything unless the command is verbose: the
// command itself reports what went wrong.
func (f *targetFlags) logger(e *env, cfg *config.Config) *slog.Logger {
	if !f.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return newLogger(e.Stderr, cfg)
}

// implementation returns the client info of the command.
func implementation() []byte {
	out := append([]byte(`{"name":"signalbox","version":`), jsonscan.AppendString(nil, versionOf(buildInfo()))...)
	return append(out, '}')
}

func request(method string, params []byte) (*mcp.Request, error) {
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

// with calls work with the target until it returns or is interrupted, and then prints
// warnings about the gateway's backends.
func (f *targetFlags) with(ctx context.Context, e *env, work func(context.Context, *target) error) error {
	t, err := f.open(ctx, e)
	if err != nil {
		return err
	}
	// The backends end after the work and before the command reports its error, so that
	// the error is the last line.
	ctx, done := e.interruptible(ctx)
	err = work(ctx, t)
	t.warn(context.WithoutCancel(ctx), e)
	interrupted := ctx.Err() != nil
	done()
	cerr := t.close()
	switch {
	case interrupted && err != nil:
		return fmt.Errorf("interrupted: %w", err)
	case err != nil && t.url != nil:
		return hint(err, t.url, t.token)
	case err != nil:
		return err
	case cerr != nil:
		return fmt.Errorf("end the backends: %w", cerr)
	}
	return nil
}

// warn prints which backends are not live, and the gateway's problems. They are not
// errors: the other backends work.
func (t *target) warn(ctx context.Context, e *env) {
	if t.status == nil {
		return
	}
	s, err := t.status(ctx)
	if err != nil {
		e.printError(fmt.Sprintf("warning: cannot read the status of the gateway: %v", err))
		return
	}
	for _, b := range s.Backends {
		if isUp(&b) {
			continue
		}
		text := fmt.Sprintf("warning: backend %q is %s", b.Name, b.State)
		if b.Reason != "" {
			text += ": " + b.Reason
		}
		e.printError(text)
	}
	for _, p := range s.Problems {
		e.printError("warning: " + p)
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
		return "the token in " + tokenVariable + " was not accepted; check it"
	}
	return "put a bearer token for the server into " + tokenVariable
}
