// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

// KnownCommand rejects an unknown command, and suggests a similar one.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// Only the nearest: the help, to which the message refers, lists all.
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return Usagef("unknown command %q", args[0])
}

// ArgsBetween returns a cobra.PositionalArgs that requires low to high arguments. what
// describes them in the error.
func ArgsBetween(low, high int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return Usagef("got %s, want %s", output.Plural(len(args), "argument"), what)
		}
		return nil
	}
}

// AddWord adds a string flag that rejects the empty string. An empty value is nearly always
// an unset shell variable, and treating it as absent would select another server than
// intended.
func AddWord(cmd *cobra.Command, to *string, name, shorthand, usage string) {
	cmd.Flags().FuncP(name, shorthand, usage, func(word string) error {
		if word == "" {
			return errors.New("the value is empty; omit the flag instead")
		}
		*to = word
		return nil
	})
}
