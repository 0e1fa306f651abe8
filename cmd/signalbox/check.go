// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/config"
)

// newCheck returns the command that validates a file. The problems are its standard
// output, for editors and pipelines. Standard error has only their number.
func newCheck(e *env) *cobra.Command {
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
		Args: argsBetween(0, 1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && file != "":
				return usagef("both FILE and --config; choose one")
			case len(args) == 1:
				return e.check(e.path(args[0]), strict)
			}
			// A missing file is an error, and not the demo: the caller expects a file.
			src := e.source(file)
			if !src.hasFile() {
				return usagef("%s; name the FILE", e.nothingFound())
			}
			return e.check(src.path, strict)
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with an error if there are notes")
	return cmd
}

// check prints the problems of a file, or a summary if it has no problems. If strict,
// notes are problems.
func (e *env) check(file string, strict bool) error {
	// Not source.load: a check starts nothing, and so cannot start itself in a loop if it
	// runs inside a gateway.
	cfg, err := config.Inspect(file, e.LookupEnv)
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		if err := e.printText(e.Stdout, problems.Error()+"\n"); err != nil {
			return err
		}
		return fmt.Errorf("check %s: %s", file, plural(len(problems), "problem"))
	case err != nil:
		return fmt.Errorf("check %s: %w", file, err)
	}
	// As serve does, so that the numbers are those of what would be served.
	leaveSelf(cfg)
	if strict && len(cfg.Notes) > 0 {
		if err := e.printText(e.Stdout, cfg.Notes.Error()+"\n"); err != nil {
			return err
		}
		return fmt.Errorf("check %s: %s, which --strict forbids", file, plural(len(cfg.Notes), "note"))
	}
	return e.printText(e.Stdout, checked(file, cfg))
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
	fmt.Fprintf(&b, "%s: no problems, %s", file, plural(len(cfg.Servers)-disabled, "backend"))
	if disabled > 0 {
		fmt.Fprintf(&b, ", %d more disabled", disabled)
	}
	for _, note := range cfg.Notes {
		b.WriteString("\n" + note.String())
	}
	return b.String() + "\n"
}
