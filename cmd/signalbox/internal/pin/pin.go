// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pin has the command pin: it writes the version that a package resolves to into
// the entry of a server.
package pin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/runner"
)

// New returns the command that writes versions into the entries of servers.
func New(e *command.Env) *cobra.Command {
	var file string
	var all bool
	cmd := &cobra.Command{
		Use:   "pin (NAME | --all)",
		Short: "Write the version of a server's package into the configuration file",
		Long: `Write the version of a server's package into the configuration file, so that each start
runs the same one: npx package@1.2.3, uvx package==1.2.3, docker run image@sha256:... . The
version is the one that the package manager would start now: what it has installed before,
or else the newest.

The package managers are asked: npm for npx, bunx and pnpm dlx, uv for uvx and pipx run,
docker and podman for their images. They may read their registries.
` + edit.Help,
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return command.ArgsBetween(0, 0, "none with --all")(cmd, args)
			}
			return command.ArgsBetween(1, 1, "one NAME, or --all")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, done := e.Interruptible(cmd.Context())
			defer done()
			return pin(ctx, e, file, args)
		},
	}
	source.Flag(cmd, &file)
	cmd.Flags().BoolVar(&all, "all", false, "pin all servers whose package has no exact version")
	return cmd
}

// pin pins the servers with the names, or all.
func pin(ctx context.Context, e *command.Env, flag string, names []string) error {
	var failed []error
	// In any case the reload of a file is waited for, which is of no server in particular.
	err := edit.Change(ctx, e, flag, strings.Join(names, ""), func(f configedit.File) ([]byte, error) {
		var servers []config.Backend // with their variables, if those are set
		if cfg, err := config.Parse(f.Name, f.Text, e.LookupEnv); err == nil {
			servers = cfg.Servers
		}
		chosen, all := names, len(names) == 0
		if all {
			chosen = f.Servers()
		}
		for _, name := range chosen {
			text, err := pinOne(ctx, e, f, name, servers)
			switch {
			case err == nil:
				f.Text = text
			case !all || ctx.Err() != nil:
				return nil, err
			case !errors.Is(err, errNoPackage):
				failed = append(failed, err)
			}
		}
		return f.Text, nil
	})
	return errors.Join(append([]error{err}, failed...)...)
}

// errNoPackage is the error of a server that is no package of a registry.
var errNoPackage = errors.New("it is not a package that npx, bunx, pnpm dlx, uvx, pipx run or docker run starts, so there is no version to write")

// pinOne returns the text of a file in which one server is pinned.
func pinOne(ctx context.Context, e *command.Env, f configedit.File, name string, servers []config.Backend) ([]byte, error) {
	if err := f.Has(name); err != nil {
		return nil, err
	}
	// As they are written: a reference to a variable has to stay one.
	command, args := f.Value(name, "command"), f.Values(name, "args")
	p, found := runner.Find(command, args)
	switch {
	case !found && strings.Contains(command+strings.Join(args, ""), "${"):
		return nil, fmt.Errorf("pin %s: %w, or a variable has its name", name, errNoPackage)
	case !found:
		return nil, fmt.Errorf("pin %s: %w", name, errNoPackage)
	case p.IsExact():
		return f.Text, e.PrintText(e.Stdout, fmt.Sprintf("%s is pinned already: %s\n", name, p.Spec()))
	}
	resolver := resolverOf(ctx, e, name, command, args, servers)
	version, source, err := resolver.version(ctx, &p)
	if err != nil {
		return nil, fmt.Errorf("pin %s: the version of %s: %w", name, p.Spec(), err)
	}
	text, err := f.SetItem(name, "args", p.Index, p.Argument(version))
	if err != nil {
		return nil, err
	}
	return text, e.PrintText(e.Stdout, fmt.Sprintf("%s: %s, %s\n", name, p.Pinned(version), source))
}
