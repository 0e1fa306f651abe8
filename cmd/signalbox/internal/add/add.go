// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package add has the commands add and import, which write servers into a configuration
// file: from a command line, from what another program's manual says, or from the files of
// MCP clients.
package add

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/secrets"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

// tryFlags are the flags of add for the trial of a server.
type tryFlags struct {
	try, noTry, yes bool
}

func (f *tryFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.try, "try", false, "start or reach the server first, as on a terminal; write nothing if it does not work")
	cmd.Flags().BoolVar(&f.noTry, "no-try", false, "write without trying the server")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "write without a question, also if the server does not work")
}

// add adds the server of the arguments, or those of standard input.
func add(ctx context.Context, e *command.Env, f *addFlags, args []string, dash int) error {
	if f.try && f.noTry {
		return command.Usagef("both --try and --no-try; choose one")
	}
	if dash < 0 && len(args) > 0 && len(args) <= 2 && args[len(args)-1] == "-" {
		if len(f.headers)+len(f.env) > 0 {
			return command.Usagef("--header and --env belong to a server on the command line; write them into the text")
		}
		return addPasted(ctx, e, f, args[:len(args)-1])
	}
	entry, err := f.entry(args, dash)
	if err != nil {
		return err
	}
	err = edit.ChangeIf(ctx, e, f.config, args[0], true, trial(ctx, e, f.tryFlags, args[:1]), func(file configedit.File) ([]byte, error) { return file.Add(args[0], entry) })
	if err == nil {
		secrets.NoteMissing(e, args[0], entry)
		noteMissing(e, f.config, args[:1])
	}
	return err
}

// noteMissing prints the variables that servers of a file need and that are not set.
func noteMissing(e *command.Env, flag string, names []string) {
	path := source.Find(e, flag).Path
	own, err := edit.ServersOf(e, path)
	file := &importOutput{target: path}
	if err != nil || file.read() != nil {
		return // the file has been written
	}
	own = slices.DeleteFunc(own, func(s imports.Server) bool { return !slices.Contains(names, s.Original) })
	missing := missingVariables(own, file.lookup(e.LookupEnv))
	if len(missing) > 0 {
		e.PrintError(fmt.Sprintf("to be set: %s (with 'signalbox secret set NAME', or in the environment)", strings.Join(missing, ", ")))
	}
}

// addPasted adds the servers of a text on standard input. With a name, it must be one server.
func addPasted(ctx context.Context, e *command.Env, f *addFlags, name []string) error {
	in, err := readPasted(e, clients.Client{}, edit.Places(e))
	if err != nil {
		return err
	}
	servers := imports.Merge(in.results, nil, e.LookupEnv)
	var names, tried []string
	for i := range servers {
		names = append(names, servers[i].Name)
	}
	for _, result := range in.results {
		for _, n := range result.Notes {
			e.PrintError(output.VisibleLine(n.Text))
		}
	}
	switch {
	case len(servers) == 0:
		return errors.New("standard input has no server that can be added")
	case len(name) == 1 && len(servers) > 1:
		return command.Usagef("standard input has %d servers, and one NAME cannot be for all: %s", len(servers), strings.Join(names, ", "))
	case len(name) == 1:
		servers[0].Name, names = name[0], name
		servers[0].Notes = slices.DeleteFunc(servers[0].Notes, func(n imports.Note) bool { return strings.HasPrefix(n.Text, "renamed from ") })
	}
	for i := range servers {
		for _, n := range servers[i].Notes {
			e.PrintError(output.VisibleLine(servers[i].Name + ": " + n.Text))
		}
		if !servers[i].Disabled {
			tried = append(tried, servers[i].Name)
		}
	}
	err = edit.ChangeIf(ctx, e, f.config, servers[len(servers)-1].Name, true, trial(ctx, e, f.tryFlags, tried), func(file configedit.File) ([]byte, error) {
		for i := range servers {
			text, err := file.Add(servers[i].Name, servers[i].Entry())
			if err != nil {
				return nil, err
			}
			file.Text = text
		}
		return file.Text, nil
	})
	if err != nil {
		return err
	}
	for i := range servers {
		secrets.NoteMissing(e, servers[i].Name, servers[i].Entry())
	}
	noteMissing(e, f.config, names)
	return nil
}

// trial returns what decides about a changed file: it starts or reaches the new servers, and
// asks if one does not work. It is nil if they are not tried. Without a terminal only --try
// starts them: a script that adds a server does not expect that its program runs.
func trial(ctx context.Context, e *command.Env, f tryFlags, names []string) func(configedit.File) (bool, error) {
	if f.noTry || !f.try && !e.Terminal(e.Stdin) || len(names) == 0 {
		return nil
	}
	return func(after configedit.File) (bool, error) {
		cfg, err := trialConfig(e, after)
		if err != nil {
			e.PrintError(fmt.Sprintf("not tried: %v", err))
			return true, nil // variables may be set for the gateway only
		}
		found, err := tryServers(ctx, e, after.Name, cfg, names)
		if err != nil {
			return false, err
		}
		if _, err := e.Stdout.Write(check.Table(e, found)); err != nil {
			return false, err
		}
		failed := check.NeedsAttention(found)
		if failed == nil || f.yes {
			return true, nil
		}
		if !e.Terminal(e.Stdin) {
			return false, fmt.Errorf("%w; nothing was written (--yes writes it anyway)", failed)
		}
		return e.Confirm(ctx, false, "Write it anyway?")
	}
}

// trialConfig returns the configuration of a file that is not written yet.
func trialConfig(e *command.Env, file configedit.File) (*config.Config, error) {
	cfg, err := config.Parse(file.Name, file.Text, e.LookupEnv)
	if err != nil {
		return nil, err
	}
	src := source.Source{Path: file.Name, Lookup: e.LookupEnv}
	if err := src.RefuseLoop(); err != nil {
		return nil, err
	}
	src.MarkBackends(cfg)
	source.LeaveSelf(cfg)
	return cfg, nil
}

// tryServers starts or reaches servers, as doctor does. The error is that of an interrupt.
func tryServers(ctx context.Context, e *command.Env, file string, cfg *config.Config, names []string) (found []check.Finding, err error) {
	var servers []config.Backend
	for _, s := range cfg.Servers {
		if slices.Contains(names, s.Name) && !s.Disabled {
			servers = append(servers, s)
		}
	}
	if e.Terminal(e.Stderr) {
		e.PrintError(fmt.Sprintf("trying %s; this takes up to %v", strings.Join(names, ", "), check.Timeout))
	}
	err = check.Bounded(ctx, e, func(ctx context.Context) error {
		found = check.Servers(ctx, e, file, cfg, servers)
		return nil
	})
	return found, err
}

type addFlags struct {
	tryFlags

	config  string
	headers []string // each as 'Name: value' or NAME=VALUE
	env     []string // each as NAME=VALUE
}

// New returns the command that adds servers to a configuration file.
func New(e *command.Env) *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add (NAME (URL | -- COMMAND [ARG ...]) | [NAME] -)",
		Short: "Add a server to the configuration file",
		Long: `Add a server to the configuration file: a program to start, or the URL of a remote
server. It is the last one of the file, and written in the style of the one before it.
Without a file, ` + edit.FileName + ` is created.

With -, standard input is read, as by 'signalbox import -': a map of servers, one server, a
command such as "claude mcp add ...", or an address. All servers in it are added. NAME is
for a text with one server.

On a terminal, or with --try, the server is started or reached first, and what its tools
cost is printed. If it does not work, the reason is shown, and it is written only after a
question.
` + edit.Help + `

A credential is best written as ${NAME}, which takes it from 'signalbox secret set NAME',
or from the environment of the gateway. Use single quotes, so that the shell does not
replace it.`,
		Example: `  signalbox add files -- npx -y @modelcontextprotocol/server-filesystem /srv
  signalbox add tickets https://example.com/mcp --header 'Authorization: Bearer ${TICKETS_TOKEN}'
  signalbox add - < pasted.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return add(cmd.Context(), e, &f, args, cmd.ArgsLenAtDash())
		},
	}
	source.Flag(cmd, &f.config)
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "send a header to the URL, as `'Name: value'` or NAME=VALUE; may be repeated")
	f.addTo(cmd)
	cmd.Flags().StringArrayVar(&f.env, "env", nil, "set a variable of the program, as `NAME=VALUE`; may be repeated")
	return cmd
}

// entry returns the entry for the arguments. dash is the number of arguments before --, or -1.
func (f *addFlags) entry(args []string, dash int) (configedit.Entry, error) {
	switch {
	case dash == 1 && len(args) > 1 && len(f.headers) > 0:
		return nil, command.Usagef("--header needs a URL; a program has --env")
	case dash == 1 && len(args) > 1:
		entry := configedit.Entry{{Key: "command", Value: args[1]}}
		if len(args) > 2 {
			entry = append(entry, configedit.Field{Key: "args", Value: args[2:]})
		}
		return withPairs(entry, "env", f.env, "=")
	case dash < 0 && len(args) == 2 && !strings.HasPrefix(args[1], "http://") && !strings.HasPrefix(args[1], "https://"):
		return nil, command.Usagef("%q is not an http or https URL; for a program, write -- before it", args[1])
	case dash < 0 && len(args) == 2 && len(f.env) > 0:
		return nil, command.Usagef("--env needs a program; a URL has --header")
	case dash < 0 && len(args) == 2:
		return withPairs(configedit.Entry{{Key: "url", Value: args[1]}}, "headers", f.headers, ":=")
	default:
		return nil, command.Usagef("want a NAME and a URL, or a NAME, -- and a command with its arguments")
	}
}

// withPairs adds a mapping of flags to an entry. Each flag is a name and a value, with one of
// the separators between them.
func withPairs(entry configedit.Entry, key string, flags []string, separators string) (configedit.Entry, error) {
	var pairs configedit.Entry
	for _, text := range flags {
		i := strings.IndexAny(text, separators)
		if i <= 0 {
			// Not the text: it may be a credential.
			return nil, command.Usagef("one of %q is not of the form NAME=VALUE", key)
		}
		name, value := strings.TrimSpace(text[:i]), text[i+1:]
		if text[i] == ':' {
			value = strings.TrimSpace(value)
		}
		if slices.ContainsFunc(pairs, func(f configedit.Field) bool { return f.Key == name }) {
			return nil, command.Usagef("%q is set twice", name)
		}
		pairs = append(pairs, configedit.Field{Key: name, Value: value})
	}
	if pairs != nil {
		entry = append(entry, configedit.Field{Key: key, Value: pairs})
	}
	return entry, nil
}
