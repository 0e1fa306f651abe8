// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check examines a configuration file and its servers, and has the command check. A
// server is examined by starting it by itself. The commands doctor and add print the
// findings.
package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
)

// New returns the command that validates a file. The problems are its standard
// output, for editors and pipelines. Standard error has only their number.
func New(e *command.Env) *cobra.Command {
	var file string
	var strict bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Validate a configuration file",
		Long: `Validate a configuration file and print all problems at once, each with its place.
Environment variables, secrets and token files that the configuration names are read;
nothing is started. FILE may be given with --config, too. Without either, the file that
serve would use is checked.

Notes are about what is valid and seldom meant, such as a placeholder, a relative path
that exists only beside the file, or npx without a version. docs/codes.md explains their
codes. With --strict they are problems.`,
		Args: command.ArgsBetween(0, 1, "one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && file != "":
				return command.Usagef("both FILE and --config; choose one")
			case len(args) == 1:
				return check(cmd.Context(), e, e.Path(args[0]), strict)
			}
			// A missing file is an error, and not the demo: the caller expects a file.
			src := source.Find(e, file)
			if !src.HasFile() {
				return command.Usagef("%s; name the FILE", source.NothingFound(e))
			}
			return check(cmd.Context(), e, src.Path, strict)
		},
	}
	source.Flag(cmd, &file)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with an error if there are notes")
	return cmd
}

// check prints the problems of a file, or a summary if it has no problems. If strict,
// notes are problems.
func check(ctx context.Context, e *command.Env, file string, strict bool) error {
	// Not source.load: a check starts nothing, and so cannot start itself in a loop if it
	// runs inside a gateway.
	cfg, err := config.Inspect(file, e.LookupEnv)
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		if err := e.PrintText(e.Stdout, problems.Error()+"\n"); err != nil {
			return err
		}
		return fmt.Errorf("check %s: %s", file, output.Plural(len(problems), "problem"))
	case err != nil:
		return fmt.Errorf("check %s: %w", file, err)
	}
	// As serve does, so that the numbers are those of what would be served.
	source.LeaveSelf(cfg)
	cfg.Notes = append(cfg.Notes, Credentials(ctx, e, file, cfg)...)
	if strict && len(cfg.Notes) > 0 {
		if err := e.PrintText(e.Stdout, cfg.Notes.Error()+"\n"); err != nil {
			return err
		}
		return fmt.Errorf("check %s: %s, which --strict forbids", file, output.Plural(len(cfg.Notes), "note"))
	}
	return e.PrintText(e.Stdout, checked(file, cfg))
}

// checked returns the summary of a file without problems.
func checked(file string, cfg *config.Config) string {
	// Disabled entries are counted separately: a file with only disabled backends is
	// valid, and serves nothing, which the user may not expect.
	disabled := 0
	for i := range cfg.Servers {
		if cfg.Servers[i].Disabled {
			disabled++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: no problems, %s", file, output.Plural(len(cfg.Servers)-disabled, "backend"))
	if disabled > 0 {
		fmt.Fprintf(&b, ", %d more disabled", disabled)
	}
	for _, note := range cfg.Notes {
		b.WriteString("\n" + note.String())
	}
	return b.String() + "\n"
}
