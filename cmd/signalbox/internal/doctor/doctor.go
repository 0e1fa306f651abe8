// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor has the command doctor: it examines the file, its servers, the port, the
// running gateway and the clients, and corrects what a change of the file can correct.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/connect"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/serve"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
)

// New returns the command that examines a configuration and its servers.
func New(e *command.Env) *cobra.Command {
	var file string
	var asJSON, fix, yes bool
	cmd := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "Find what is wrong with the servers of a configuration",
		Long: `Check the configuration file, start each of its servers, and print what works, what
does not, and what to do about it. Then check the port, the running gateway of the file,
and the clients. With NAME, only that server is checked.

It takes 15 seconds at most, and ends all that it has started. A running gateway and its
servers are not disturbed. docs/codes.md explains the codes.

Nothing is changed, except with --fix: it asks for each finding that a change of the
configuration file corrects, writes it, and checks again.

The exit code is 0 if nothing failed, 3 if all that failed may pass without a change, and
otherwise 1.`,
		Args: command.ArgsBetween(0, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := source.FindFile(e, file)
			if err != nil {
				return err
			}
			if fix && asJSON {
				return command.Usagef("both --fix and --json; choose one")
			}
			if yes && !fix {
				return command.Usagef("--yes needs --fix; without that nothing is written")
			}
			found, err := doctor(cmd.Context(), e, src, strings.Join(args, ""), asJSON)
			if fix && err == nil {
				return correct(cmd.Context(), e, src, strings.Join(args, ""), found, yes)
			}
			if err == nil && !asJSON {
				err = printFixable(e, src, found)
			}
			return cmp.Or(err, check.NeedsAttention(found))
		},
	}
	source.Flag(cmd, &file)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	cmd.Flags().BoolVar(&fix, "fix", false, "ask for each finding that a change of the file corrects, and write it")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --fix, write without a question")
	return cmd
}

// doctor checks a file and prints the findings. name selects one server, unless empty.
func doctor(ctx context.Context, e *command.Env, src source.Source, name string, asJSON bool) ([]check.Finding, error) {
	found, err := examineFor(ctx, e, src, name)
	if err != nil {
		return nil, err
	}
	if !asJSON {
		_, err := e.Stdout.Write(check.Table(e, found))
		return found, err
	}
	return found, e.PrintValue(map[string]any{"file": src.Path, "findings": found})
}

// examineFor is examine with a bound, for a user, which may be interrupted.
func examineFor(ctx context.Context, e *command.Env, src source.Source, name string) (found []check.Finding, err error) {
	err = check.Bounded(ctx, e, func(ctx context.Context) (err error) {
		found, err = examine(ctx, e, src, name)
		return err
	})
	return found, err
}

// examine makes all checks. The error is about the name.
func examine(ctx context.Context, e *command.Env, src source.Source, name string) ([]check.Finding, error) {
	cfg, err := src.Load()
	if err != nil {
		found := invalidFile(src.Path, err)
		gateway, _ := checkGateway(ctx, e, src.Path)
		return append(found, gateway), nil
	}
	source.LeaveSelf(cfg)
	servers, err := selectServers(src, cfg, name)
	if err != nil {
		return nil, err
	}
	found := []check.Finding{validFile(src.Path, cfg)}
	if name == "" {
		for _, note := range slices.Concat(cfg.Notes, check.Credentials(ctx, e, src.Path, cfg)) {
			if !slices.ContainsFunc(cfg.Servers, func(s config.Backend) bool { return check.IsAbout(note, s.Name) }) {
				found = append(found, check.OfNote("config", "config", note))
			}
		}
	}
	check.NoteStart(e, len(servers))
	var tried []check.Finding
	var all sync.WaitGroup
	// Ends with ctx; waited for below.
	all.Go(func() { tried = check.Servers(ctx, e, src.Path, cfg, servers) })
	var rest []check.Finding
	if name == "" {
		// Ends with ctx; waited for below.
		all.Go(func() {
			gateway, running := checkGateway(ctx, e, src.Path)
			rest = []check.Finding{checkPort(ctx, cfg, running), gateway}
			for _, note := range check.Identity(ctx, cfg) {
				rest = append(rest, check.OfNote("config", "config", note))
			}
			if f, ok := connect.CheckClients(e, src); ok {
				rest = append(rest, f)
			}
			if f, ok := checkState(e, src.Path); ok {
				rest = append(rest, f)
			}
			if f, ok := checkLeft(src.Path); ok {
				rest = append(rest, f)
			}
		})
	}
	all.Wait()
	return slices.Concat(found, tried, rest), nil
}

// selectServers returns the enabled servers, or the one with the name.
func selectServers(src source.Source, cfg *config.Config, name string) ([]config.Backend, error) {
	if name == "" {
		return check.Enabled(cfg), nil
	}
	srv, err := src.Server(cfg, name)
	switch {
	case err != nil:
		return nil, command.Usagef("%w", err)
	case srv.Disabled:
		return nil, fmt.Errorf("server %q is disabled; 'signalbox enable %s' enables it", name, name)
	}
	return []config.Backend{*srv}, nil
}

// invalidFile returns the findings for a file that cannot be used.
func invalidFile(path string, err error) []check.Finding {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return []check.Finding{{Kind: "config", Name: "config", Result: check.Fail, Text: err.Error()}}
	}
	var found []check.Finding
	for _, p := range problems {
		f := check.OfNote("config", "config", p)
		f.Result = check.Fail
		found = append(found, f)
	}
	return append(found, check.Finding{
		Kind: "config", Name: "config", Result: check.Warn,
		Text: "no server of " + path + " was started, because the file has " + output.Plural(len(problems), "problem"),
	})
}

func validFile(path string, cfg *config.Config) check.Finding {
	return check.Finding{Kind: "config", Name: "config", Result: check.OK, Text: path + ", " + check.Count(cfg, "server")}
}

// checkGateway returns the finding on the running gateway of a file, and that gateway, or nil.
func checkGateway(ctx context.Context, e *command.Env, file string) (check.Finding, *control.Info) {
	f := check.Finding{Kind: "gateway", Name: "gateway", Result: check.OK, Text: "none is running with this file"}
	gateways, err := control.Running(ctx, e, file)
	if len(gateways) == 0 {
		if err != nil {
			f.Result, f.Text, f.Fix = check.Fail, err.Error(), "end that process, and start it again"
		}
		return f, nil
	}
	defer control.CloseIdle(gateways)
	running := gateways[0]
	s, err := control.StatusAt(ctx, running.Socket)
	switch {
	case err != nil:
		f.Result, f.Text, f.Fix = check.Fail, fmt.Sprintf("process %d: %v", running.Process, err), "end that process, and start it again"
	case s.ReloadRefused != nil:
		f.Result, f.Fix = check.Warn, "correct the file, or run 'signalbox reload'; 'signalbox status' has the reason"
		f.Text = fmt.Sprintf("process %d serves an earlier content of the file", running.Process)
	default:
		live := 0
		for i := range s.Backends {
			if control.IsUp(&s.Backends[i]) {
				live++
			}
		}
		f.Text = fmt.Sprintf("process %d serves the file, %d of %s live", running.Process, live, output.Plural(len(s.Backends), "backend"))
	}
	return f, running.Info
}

// checkPort checks that the gateway of the file can listen, or does so.
func checkPort(ctx context.Context, cfg *config.Config, running *control.Info) check.Finding {
	f := check.Finding{Kind: "port", Name: "port", Result: check.OK}
	effective := cfg.Effective()
	if running != nil {
		_, port, err := net.SplitHostPort(effective.Listen)
		if u, uerr := url.Parse(running.URL); err == nil && uerr == nil && u.Port() == port {
			f.Text = fmt.Sprintf("%s is that of process %d, the running gateway", effective.Listen, running.Process)
			return f
		}
	}
	if err := serve.CanListen(ctx, effective); err != nil {
		text, c := check.SplitCode(err.Error())
		f.Result, f.Code, f.Passes = check.Fail, c, check.CodeEntry(c).Passes
		f.Text, f.Fix, _ = strings.Cut(text, "; ")
		return f
	}
	f.Text = effective.Listen + " is free"
	return f
}
