// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/internal/runner"
	"github.com/signalbox-mcp/signalbox/internal/shellpath"
)

const (
	// Timeout bounds the checks, and serverWait how long they wait for a server. The
	// difference is for its tools and its end.
	Timeout    = 15 * time.Second
	serverWait = 13 * time.Second

	// interval is how often the state of identity providers is read.
	interval = 20 * time.Millisecond
)

// Enabled returns the servers that are not disabled.
func Enabled(cfg *config.Config) []config.Backend {
	return slices.DeleteFunc(slices.Clone(cfg.Servers), func(s config.Backend) bool { return s.Disabled })
}

// NoteStart notes on a terminal that servers are started, for at most Timeout.
func NoteStart(e *command.Env, servers int) {
	if e.Terminal(e.Stderr) && servers > 0 {
		e.PrintError(fmt.Sprintf("starting %s; this takes up to %v", output.Plural(servers, "server"), Timeout))
	}
}

// Bounded calls work with a context that ends after Timeout. If it is interrupted, that is its
// error.
func Bounded(ctx context.Context, e *command.Env, work func(context.Context) error) error {
	interrupted, done := e.Interruptible(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(interrupted, Timeout)
	defer cancel()
	err := work(ctx)
	if interrupted.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// Servers checks servers of a configuration file. Those that users sign in at are called with the
// kept access. An item that another server has, too, is no finding if the file decides between them.
func Servers(ctx context.Context, e *command.Env, file string, cfg *config.Config, servers []config.Backend) []Finding {
	t := tryServers(ctx, e, file, cfg, servers, false)
	for i, found := range t.servers {
		t.servers[i] = slices.DeleteFunc(found, func(f Finding) bool {
			return !f.withheld && (f.Code == code.NameConflict || f.Code == code.SkillShared)
		})
		for _, note := range cfg.Notes {
			// A program that is missing has a note, too.
			if IsAbout(note, servers[i].Name) && (note.Code == "" || note.Code != found[0].Code) {
				note.File = filepath.Base(note.File) // the whole path is in the first finding
				t.servers[i] = append(t.servers[i], OfNote("server", servers[i].Name, note))
			}
		}
	}
	return append(slices.Concat(t.servers...), t.others...)
}

// trial is what was found by a gateway with servers of a configuration.
type trial struct {
	servers [][]Finding // of each server; the first one says whether it works
	others  []Finding   // about no single server
	offered signalbox.BackendStatus
}

// tryServers starts a gateway with servers of the configuration, and ends it. If readPages, the HTML of
// apps and the tools for clients that render them are compared with the lock file, too.
func tryServers(ctx context.Context, e *command.Env, file string, cfg *config.Config, servers []config.Backend, readPages bool) *trial {
	t := &trial{servers: make([][]Finding, len(servers))}
	opt := signalbox.Options{Grace: target.PromptGrace, Starts: len(servers), Logger: slog.New(slog.DiscardHandler)}
	part := partOf(cfg, servers)
	leaveSignIns(ctx, e, file, cfg, part, &opt)
	gw, err := signalbox.New(*part, opt) //nolint:contextcheck // it lives until Close
	if err != nil {
		for i := range servers {
			t.servers[i] = []Finding{{Kind: "server", Name: servers[i].Name, Result: Fail, Text: err.Error()}}
		}
		if len(servers) == 0 {
			t.others = []Finding{{Kind: "config", Name: "config", Result: Fail, Text: err.Error()}}
		}
		return t
	}
	t.examine(ctx, e, gw, cfg, servers, readPages)
	if err := gw.Close(); err != nil { //nolint:contextcheck // it ends even if ctx has ended
		t.others = append(t.others, Finding{Kind: "processes", Name: "processes", Result: Fail, Text: fmt.Sprintf("a server could not be ended: %v", err)})
	}
	return t
}

// partOf returns a configuration in which all servers but some are disabled, and that records no calls.
func partOf(cfg *config.Config, servers []config.Backend) *config.Config {
	part := *cfg
	part.Audit = config.Audit{}
	part.Servers = slices.Clone(cfg.Servers)
	for i := range part.Servers {
		srv := &part.Servers[i]
		if !slices.ContainsFunc(servers, func(s config.Backend) bool { return s.Name == srv.Name }) {
			srv.Disabled = true
		}
		if srv.Command != "" {
			srv.Idle = -1 // it runs until all others have answered
		}
	}
	return &part
}

// leaveSignIns removes the sign-ins of users from servers without kept access: nothing is sent for them
// then, and nothing is kept.
func leaveSignIns(ctx context.Context, e *command.Env, file string, cfg, part *config.Config, opt *signalbox.Options) {
	signedIn, state := signedInAt(ctx, e, file, cfg)
	for i := range part.Servers {
		srv := &part.Servers[i]
		switch {
		case slices.Contains(signedIn, srv.Name):
			opt.StateFolder = state
		case srv.OAuth != nil && !srv.OAuth.IsGateway():
			srv.OAuth = nil
		}
	}
}

// examine waits for the servers of a gateway, and records what is found.
func (t *trial) examine(ctx context.Context, e *command.Env, gw *signalbox.Gateway, cfg *config.Config, servers []config.Backend, readPages bool) {
	wait, cancel := context.WithTimeout(ctx, serverWait)
	defer cancel()
	started := time.Now()
	_ = gw.AwaitLists(wait) // the state of a server shows whether it has answered
	isWhole := len(servers) == len(Enabled(cfg))
	if isWhole {
		awaitIssuers(wait, gw)
	}
	definitions := gw.Definitions()
	if readPages && cfg.Lock() != nil {
		gw.ReadAppTools(wait, definitions)
		gw.ReadPages(wait, definitions)
		gw.AwaitAppLists(wait)
	}
	status, problems := gw.Status(), gw.ListProblems()
	shellPath := func() string { return e.LoginPath(ctx) }
	for i := range servers {
		srv := &servers[i]
		at := slices.IndexFunc(status.Backends, func(b signalbox.BackendStatus) bool { return b.Name == srv.Name })
		b := &status.Backends[at]
		found := describe(cfg, srv, b, started, shellPath)
		found = append(found, problemsOf(srv.Name, problems)...)
		t.servers[i] = append(found, heldOf(cfg, srv.Name, definitions)...)
		t.offered.Tools += b.Offered.Tools
		t.offered.Resources += b.Offered.Resources
		t.offered.Templates += b.Offered.Templates
		t.offered.Prompts += b.Offered.Prompts
		t.offered.Skills += b.Offered.Skills
		t.offered.ToolBytes += b.ToolBytes
	}
	addSharedAppNames(cfg, t.servers)
	if isWhole {
		t.addOthers(cfg, gw, &status, problems)
	}
}

// awaitIssuers waits until the keys of each identity provider were fetched, or could not be.
func awaitIssuers(ctx context.Context, gw *signalbox.Gateway) {
	untried := func(s signalbox.IssuerStatus) bool { return !s.Pinned && s.Tried.IsZero() }
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for slices.ContainsFunc(gw.Status().Issuers, untried) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// describe returns the findings on a server by its state.
func describe(cfg *config.Config, srv *config.Backend, b *signalbox.BackendStatus, started time.Time, shellPath func() string) []Finding {
	of := func(f Finding) Finding {
		f.Kind, f.Name = "server", srv.Name
		return f
	}
	if b.State != "live" {
		f := downFinding(b, srv, shellPath)
		switch {
		case f.Code == code.AuthSignIn:
			f.Fix = signInFix(cfg, srv.Name)
			f.perUser = srv.OAuth != nil && !srv.OAuth.IsGateway() && !cfg.Auth.IsZero()
		case f.Code == code.AuthWrong && hasNoCredential(cfg, srv.Name):
			f.Fix = "write an Authorization header in its headers; or, if users sign in to it, " + signInFix(cfg, srv.Name)
		}
		return []Finding{of(f)}
	}
	live := liveFinding(b, b.Since.Sub(started))
	live.addStart(srv, b.LastStart)
	live.appTools = b.AppTools
	found := []Finding{of(live)}
	if b.OtherOutput != "" {
		found = append(found, of(Finding{Result: Warn, Code: code.TalkOtherOutput, Text: b.OtherOutput, Fix: CodeEntry(code.TalkOtherOutput).Cure}))
	}
	if b.Advice != "" {
		found = append(found, of(Finding{Result: OK, Text: b.Advice}))
	}
	return found
}

// problemsOf returns the findings on what a server lists. Names that apps of several servers share
// are left to addSharedAppNames.
func problemsOf(server string, problems []signalbox.ListProblem) (found []Finding) {
	for _, p := range problems {
		if IsAbout(p.Problem, server) && p.Code != code.AppName {
			found = append(found, Finding{
				Kind: "server", Name: server, Result: Warn, Code: p.Code, Fix: CodeEntry(p.Code).Cure, Path: p.Path,
				Text:     strings.TrimPrefix(p.Message, "backend "+strconv.Quote(server)+": "),
				withheld: p.Withheld, problem: p.Problem,
			})
		}
	}
	return found
}

// heldOf returns the findings on the instructions and the pages of apps of a server that are not the approved
// ones. The other definitions are in its lists.
func heldOf(cfg *config.Config, server string, all *signalbox.Definitions) (found []Finding) {
	for i := range all.Items {
		d := &all.Items[i]
		what := map[string]string{"instructions": "instructions", "page": "page " + strconv.Quote(d.Name)}[d.Kind]
		if d.Server != server || what == "" {
			continue
		}
		f := Finding{Kind: "server", Name: server, Result: Warn, Code: code.ItemHeld, withheld: d.Held}
		switch {
		case d.Held && d.Sign != "" && d.Kind != "page": // a page may have any characters
			f.Code, f.Text = code.ItemHiddenText, fmt.Sprintf("left out: a character that people do not see (%s)", d.Sign)
		case d.Held:
			f.Text = "left out: not what was approved"
		case d.State == string(pins.Frozen):
			f.Code, f.Text = code.ItemFrozen, "changed since it was approved, and the approved text is offered"
		case d.State == string(pins.Changed):
			f.Text = "offered, and changed since it was approved"
		default:
			continue
		}
		f.Text = fmt.Sprintf("%s: %s: look at it with signalbox approve %s", what, f.Text, server)
		f.Fix = CodeEntry(f.Code).Cure
		f.problem = cfg.Problem(configpath.Server(server), fmt.Sprintf("backend %q: %s", server, f.Text), "")
		f.problem.Code = f.Code
		found = append(found, f)
	}
	return found
}

// addOthers adds the findings on profiles, the policy, filters and identity providers.
func (t *trial) addOthers(cfg *config.Config, gw *signalbox.Gateway, status *signalbox.Status, problems []signalbox.ListProblem) {
	add := func(p config.Problem, withheld bool) {
		short := p
		short.File = filepath.Base(p.File)
		f := OfNote("config", "config", short)
		f.problem, f.withheld = p, withheld
		t.others = append(t.others, f)
	}
	for _, p := range problems {
		isNoted := slices.ContainsFunc(cfg.Notes, func(note config.Problem) bool { return note.Path == p.Path })
		if _, _, ofServer := configpath.CutServer(p.Path); !ofServer && !isNoted {
			add(p.Problem, p.Withheld)
		}
	}
	if r := status.Results; r != nil && r.Whole > 0 && cfg.Results.Structured == "" {
		text := fmt.Sprintf("results of %s are not cut, because of output schemas", output.Plural(r.Whole, "tool"))
		add(cfg.Problem("results", text, `write "structured: cut", or pass if that is meant`), false)
	}
	if _, dryRun := gw.HasPolicy(); dryRun {
		add(cfg.Problem("policy.dryRun", "the policy refuses and hides nothing, because dryRun is set", ""), false)
	}
	for i := range status.Issuers {
		if text := status.Issuers[i].Problem(); text != "" {
			add(cfg.Problem(fmt.Sprintf("auth.issuers[%d]", i), text, ""), false)
		}
	}
}

// liveFinding describes what a server lists, and the size of its tools.
func liveFinding(b *signalbox.BackendStatus, ready time.Duration) Finding {
	f := Finding{Result: OK, Version: string(b.Version), Tools: b.Tools, Bytes: b.ToolBytes, Seconds: ready.Seconds()}
	f.Text = fmt.Sprintf("%s, %s, ready in %.1f s", itemCounts(b), b.Version, ready.Seconds())
	return f
}

// itemCounts describes the lists of a server, and the size of its tools.
func itemCounts(b *signalbox.BackendStatus) string {
	counts := control.ItemCounts(b)
	if b.Tools == 0 {
		return counts
	}
	count := output.Plural(b.Tools, "tool")
	return fmt.Sprintf("%s (≈%s tokens)%s", count, cost.SizeOf(b.ToolBytes), strings.TrimPrefix(counts, count))
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

// hasNoCredential reports whether a server has nothing to identify the gateway or its users with.
func hasNoCredential(cfg *config.Config, name string) bool {
	at := slices.IndexFunc(cfg.Servers, func(s config.Backend) bool { return s.Name == name })
	return at >= 0 && cfg.Servers[at].OAuth == nil && cfg.Servers[at].HeadersHelper == nil && !access.HasAuthorization(&cfg.Servers[at])
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
	f := Finding{Result: Fail, Code: b.Code, Text: logHasMore.ReplaceAllString(b.Reason, " (and $1 more)")}
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
	case f.Code == code.StartInstall:
		if folder := npxFolder(b.Reason); folder != "" {
			f.Fix = fmt.Sprintf("remove the folder %q, and try again", folder)
		}
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
