// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check examines a configuration file and its servers, and has the command check. The
// servers are started for it, by a gateway that serves no client. The commands doctor and add
// print the findings.
package check

import (
	"cmp"
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
	var strict, connects bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Validate a configuration file",
		Long: `Validate a configuration file and print all problems at once, each with its place.
Environment variables, secrets and token files that the configuration names are read;
nothing is started. FILE may be given with --config, too. Without either, the file that
serve would use is checked.

With --connect, each enabled server of a file without problems is started or reached, as
by doctor. Servers that do not work are problems then, and so are items that clients do not
get although no rule leaves them out: several servers have their names, or they are not
approved. Rules that match nothing and names that are too long are notes. It takes 15
seconds at most, ends all that it has started, and changes nothing.

Notes are about what is valid and seldom meant, such as a placeholder, a relative path
that exists only beside the file, or npx without a version. docs/codes.md explains their
codes. With --strict they are problems.

The exit code is 0 without problems. With --connect it is 3 if all of them may pass without a
change. Otherwise it is 1.`,
		Args: command.ArgsBetween(0, 1, "one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && file != "" {
				return command.Usagef("both FILE and --config; choose one")
			}
			// A missing file is an error, and not the demo: the caller expects a file.
			src := source.Find(e, cmp.Or(file, strings.Join(args, "")))
			if !src.HasFile() {
				return command.Usagef("%s; name the FILE", source.NothingFound(e))
			}
			if connects {
				return connect(cmd.Context(), e, src, strict)
			}
			return check(cmd.Context(), e, src.Path, strict)
		},
	}
	source.Flag(cmd, &file)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with an error if there are notes")
	cmd.Flags().BoolVar(&connects, "connect", false, "start or reach the servers, and check what they list")
	return cmd
}

// check prints the problems of a file, or a summary if it has no problems. If strict,
// notes are problems.
func check(ctx context.Context, e *command.Env, file string, strict bool) error {
	// Not source.Load: this starts nothing, and so cannot start itself in a loop if it
	// runs inside a gateway.
	cfg, err := config.Inspect(file, e.LookupEnv)
	if err != nil {
		return printInvalid(e, file, err)
	}
	noteMore(ctx, e, file, cfg)
	if strict && len(cfg.Notes) > 0 {
		if err := e.PrintText(e.Stdout, cfg.Notes.Error()+"\n"); err != nil {
			return err
		}
		return fmt.Errorf("check %s: %s, which --strict forbids", file, output.Plural(len(cfg.Notes), "note"))
	}
	return e.PrintText(e.Stdout, checked(file, cfg))
}

// printInvalid prints the problems of a file that cannot be used, and returns the error of the
// command.
func printInvalid(e *command.Env, file string, err error) error {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return fmt.Errorf("check %s: %w", file, err)
	}
	if err := e.PrintText(e.Stdout, problems.Error()+"\n"); err != nil {
		return err
	}
	return fmt.Errorf("check %s: %s", file, output.Plural(len(problems), "problem"))
}

// noteMore disables the entries that are the gateway itself, as serve does, so that the numbers are
// those of what would be served, and adds the notes on kept credentials.
func noteMore(ctx context.Context, e *command.Env, file string, cfg *config.Config) {
	source.LeaveSelf(cfg)
	cfg.Notes = append(cfg.Notes, Credentials(ctx, e, file, cfg)...)
}

// checked returns the summary of a file without problems.
func checked(file string, cfg *config.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: no problems, %s", file, Count(cfg, "backend"))
	for _, note := range cfg.Notes {
		b.WriteString("\n" + note.String())
	}
	return b.String() + "\n"
}

// Count returns the number of servers, with a noun. Disabled ones are counted separately: a file
// with only disabled servers is valid, and serves nothing, which the user may not expect.
func Count(cfg *config.Config, noun string) string {
	enabled := len(Enabled(cfg))
	count := output.Plural(enabled, noun)
	if disabled := len(cfg.Servers) - enabled; disabled > 0 {
		count += fmt.Sprintf(", %d more disabled", disabled)
	}
	return count
}
