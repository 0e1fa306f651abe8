// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/cost"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/runner"
	"github.com/signalbox-mcp/signalbox/internal/shellpath"
)

const (
	// Timeout bounds the checks, and serverWait how long they wait for a server. The
	// difference is for its tools and its end.
	Timeout    = 15 * time.Second
	serverWait = 13 * time.Second

	// interval is how often a server's state is read.
	interval = 20 * time.Millisecond
)

// Servers checks servers of a configuration file, each by itself. Those that users sign in at are
// called with the kept access.
func Servers(ctx context.Context, e *command.Env, file string, cfg *config.Config, servers []config.Backend) []Finding {
	shellPath := func() string { return e.LoginPath(ctx) }
	signedIn, state := signedInAt(ctx, e, file, cfg)
	results := make([][]Finding, len(servers))
	var all sync.WaitGroup
	for i := range servers {
		// Ends with ctx; waited for below.
		all.Go(func() {
			srv, folder := servers[i], ""
			switch {
			case slices.Contains(signedIn, srv.Name):
				folder = state
			case srv.OAuth != nil && !srv.OAuth.IsGateway():
				srv.OAuth = nil // without a sign-in nothing is sent, and nothing is kept
			}
			results[i] = checkServer(ctx, cfg, srv, folder, shellPath)
		})
	}
	all.Wait()
	addSharedAppNames(cfg, results)
	return slices.Concat(results...)
}

// onlyServer returns a configuration with one server, without what concerns others or calls.
func onlyServer(cfg *config.Config, srv config.Backend) config.Config {
	one := *cfg
	one.Servers, one.Profiles, one.Audit = []config.Backend{srv}, nil, config.Audit{}
	one.Auth.Tokens = slices.Clone(cfg.Auth.Tokens)
	for i := range one.Auth.Tokens {
		one.Auth.Tokens[i].Profiles = nil
	}
	return one
}

// checkServer starts a gateway with one server of the configuration, and ends it.
func checkServer(ctx context.Context, cfg *config.Config, srv config.Backend, state string, shellPath func() string) []Finding {
	var found []Finding
	add := func(f Finding) {
		f.Kind, f.Name = "server", srv.Name
		found = append(found, f)
	}
	one := onlyServer(cfg, srv)
	gw, err := signalbox.New(one, signalbox.Options{Grace: target.PromptGrace, StateFolder: state, Logger: slog.New(slog.DiscardHandler)}) //nolint:contextcheck // it lives until Close
	if err != nil {
		add(Finding{Result: Fail, Text: err.Error()})
		return found
	}
	started := time.Now()
	b := awaitServer(ctx, gw)
	if b.State == "live" {
		live := liveFinding(ctx, gw, &b, time.Since(started))
		live.addStart(&srv, b.LastStart)
		add(live)
		if b.OtherOutput != "" {
			add(Finding{Result: Warn, Code: code.TalkOtherOutput, Text: b.OtherOutput, Fix: CodeEntry(code.TalkOtherOutput).Cure})
		}
		status := gw.Status()
		if advice := status.Backends[0].Advice; advice != "" {
			add(Finding{Result: OK, Text: advice})
		}
		found[0].appTools = status.Backends[0].AppTools
		for _, p := range status.Problems {
			text, c := SplitCode(strings.TrimPrefix(p, "backend "+strconv.Quote(srv.Name)+": "))
			add(Finding{Result: Warn, Code: c, Text: text, Fix: CodeEntry(c).Cure})
		}
	} else {
		f := downFinding(&b, &srv, shellPath)
		switch {
		case f.Code == code.AuthSignIn:
			f.Fix = signInFix(cfg, srv.Name)
		case f.Code == code.AuthWrong && srv.OAuth == nil && srv.HeadersHelper == nil && !access.HasAuthorization(&srv):
			f.Fix = "write an Authorization header in its headers; or, if users sign in to it, " + signInFix(cfg, srv.Name)
		}
		add(f)
	}
	if err := gw.Close(); err != nil { //nolint:contextcheck // it ends even if ctx has ended
		add(Finding{Result: Fail, Text: fmt.Sprintf("it could not be ended: %v", err)})
	}
	for _, note := range cfg.Notes {
		// A program that is missing has a note, too.
		if IsAbout(note, srv.Name) && (note.Code == "" || note.Code != found[0].Code) {
			note.File = filepath.Base(note.File) // the whole path is in the first finding
			add(OfNote("server", srv.Name, note))
		}
	}
	return found
}

// awaitServer waits until the lists of the only server are known or have failed, and returns
// its last state.
func awaitServer(ctx context.Context, gw *signalbox.Gateway) signalbox.BackendStatus {
	ctx, cancel := context.WithTimeout(ctx, serverWait)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		b := gw.Status().Backends[0]
		if b.State != "starting" {
			return b
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return b
		}
	}
}

// liveFinding describes what a server lists, and the size of its tools.
func liveFinding(ctx context.Context, gw *signalbox.Gateway, b *signalbox.BackendStatus, ready time.Duration) Finding {
	f := Finding{Result: OK, Version: string(b.Version), Tools: b.Tools, Seconds: ready.Seconds()}
	tools, err := target.ToolList().Fetch(ctx, gw)
	if err != nil {
		f.Result, f.Text = Fail, fmt.Sprintf("list the tools: %v", err)
		return f
	}
	for _, tool := range tools {
		f.Bytes += len(tool)
	}
	counts := control.ItemCounts(b)
	if b.Tools > 0 {
		count := output.Plural(b.Tools, "tool")
		counts = fmt.Sprintf("%s (≈%s tokens)%s", count, cost.SizeOf(f.Bytes), strings.TrimPrefix(counts, count))
	}
	f.Text = fmt.Sprintf("%s, %s, ready in %.1f s", counts, b.Version, ready.Seconds())
	return f
}

// addStart adds where the time of the start went.
func (f *Finding) addStart(srv *config.Backend, parts *signalbox.ProcessStart) {
	f.Start = parts
	if parts == nil || parts.Install == 0 || f.Result != OK {
		return
	}
	p, _ := runner.Find(srv.Command, srv.Args)
	f.Text += fmt.Sprintf(" (%s %.1f s, %s %.1f s)", p.Runner, parts.Install/1000, p.Kind.Program(), parts.Program/1000)
}

// signInFix returns how to sign in at a server. With auth there is no access that this command may
// use: each is that of one principal.
func signInFix(cfg *config.Config, name string) string {
	command := "signalbox login " + name
	if !cfg.Auth.IsZero() {
		full := cfg.Effective()
		at := full.Listen
		if full.PublicURL != "" {
			at = full.PublicURL + full.Path
		}
		command += fmt.Sprintf(" --as PRINCIPAL; the access of a user is not tried here: for that, put the token of the user into %s, and run signalbox tools --url %s", target.TokenVariable, at)
	}
	at := slices.IndexFunc(cfg.Servers, func(s config.Backend) bool { return s.Name == name })
	if at < 0 {
		return command
	}
	switch srv := &cfg.Servers[at]; {
	case access.HasAuthorization(srv):
		return "remove the Authorization header of " + name + ", then " + command
	case srv.OAuth == nil && (!cfg.Auth.IsZero() || !cfg.Effective().IsLocal()):
		return "add 'oauth: {}' to " + name + ", then " + command
	default:
		return command
	}
}

// downFinding describes why a server does not work, and what to do about it.
func downFinding(b *signalbox.BackendStatus, srv *config.Backend, shellPath func() string) Finding {
	f := Finding{Result: Fail, Code: b.Code, Text: b.Reason}
	if b.State == "starting" {
		f.Code = code.TalkSilent
		f.Text = fmt.Sprintf("it did not answer within %v", serverWait)
		if b.OtherOutput != "" {
			f.Code, f.Text = code.TalkOtherOutput, f.Text+"; "+b.OtherOutput
		}
	}
	entry := CodeEntry(f.Code)
	f.Fix, f.Passes = entry.Cure, entry.Passes
	words, err := imports.Words(srv.Command)
	if err != nil {
		words = strings.Fields(srv.Command)
	}
	switch {
	case f.Code == code.TalkSilent:
		f.Fix = "If it installs something, try again. Otherwise start it by hand and watch it."
	case f.Code == code.TalkExited:
		f.Fix = "Start it by hand with the same arguments and variables."
	case f.Code == code.StartOneString && len(words) > 1:
		args, err := json.Marshal(slices.Concat(words[1:], srv.Args))
		if err == nil {
			f.Fix = fmt.Sprintf("command: %s, args: %s", words[0], args)
		}
	case f.Code == code.StartNotFound && !strings.ContainsAny(srv.Command, `/\`):
		if _, err := exec.LookPath(srv.Command); err == nil {
			break // what is missing is its interpreter
		}
		if program := shellpath.Find(shellPath(), srv.Command); program != "" {
			f.Text += "; your login shell has it: " + program
			f.Fix = "command: " + program
		}
	}
	return f
}
