// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/internal/config"
)

// newCheck makes the command that validates a file. What it finds wrong is its
// output, for editors and pipelines; standard error only says how much it was.
func newCheck(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Validate a configuration file",
		Long: `Validate a configuration file, and print every problem at once with its place.
It reads the environment variables and the token files that the configuration
names, and starts nothing. Without FILE it takes the one that serve would find.`,
		Args: argsBetween(0, 1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := e.fileToCheck(args)
			if err != nil {
				return err
			}
			return e.check(file)
		},
	}
}

// fileToCheck returns the file of the arguments, or the one that serve would
// find. That there is none is a mistake here, and not the demo: whoever checks
// believes to have a file.
func (e *env) fileToCheck(args []string) (string, error) {
	if len(args) == 1 {
		return e.path(args[0]), nil
	}
	if found, ok := config.Find(e.Dir); ok {
		return found, nil
	}
	return "", usagef("%s; name the FILE", e.nothingFound())
}

// check prints what is wrong with a file, which is its output, or that nothing
// is.
func (e *env) check(file string) error {
	// Not as serve loads it: a check starts nothing, and so is no loop where it
	// stands inside of a gateway.
	cfg, err := config.Inspect(file, e.LookupEnv)
	var problems signalbox.Problems
	switch {
	case errors.As(err, &problems):
		if err := e.printText(e.Stdout, problems.Error()+"\n"); err != nil {
			return err
		}
		return fmt.Errorf("check %s: %s", file, plural(len(problems), "problem"))
	case err != nil:
		return fmt.Errorf("check %s: %w", file, err)
	}
	// As serve does, so that what is counted here is what would serve.
	leaveSelf(cfg)
	return e.printText(e.Stdout, checked(file, cfg))
}

// checked says what a sound file holds.
func checked(file string, cfg *signalbox.Config) string {
	// Disabled entries are counted apart: a file whose only backend is disabled is
	// sound, and serves nothing, which is what people come to ask about.
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

// plural counts something, for sentences that a person reads.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
