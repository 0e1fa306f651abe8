// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitOK     = 0 // also of a gateway that a signal ended, and of lists that lack a backend
	exitFailed = 1 // what was asked for did not happen, or a tool called its result an error
	exitUsage  = 2 // the command line is wrong; nothing was done
)

// usageError is a mistake in the command line itself.
type usageError struct{ error }

// Unwrap returns what the mistake is.
func (e usageError) Unwrap() error { return e.error }

// usagef is fmt.Errorf for a mistake in the command line.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, e *env, args []string) int {
	root := newRoot(e)                        //nolint:contextcheck // the commands take ctx when they run
	root.SetArgs(append([]string{}, args...)) // for nil, cobra takes those of the process
	// What cobra prints, help and completions, it prints without looking back: a
	// script that a full disk cut in half would pass for a whole one.
	printed := &firstError{to: e.Stdout}
	root.SetOut(printed)
	cmd, err := root.ExecuteContextC(ctx)
	// The command's own error says more, if there is one.
	if err = cmp.Or(err, printed.err); err == nil {
		return exitOK
	}
	if _, ok := errors.AsType[usageError](err); ok {
		e.complain(fmt.Sprintf("%v (see '%s --help')", err, cmd.CommandPath()))
		return exitUsage
	}
	e.complain(err.Error())
	return exitFailed
}

// firstError is a writer that remembers the first error there was.
type firstError struct {
	to  io.Writer
	err error
}

// Write writes, as long as all went well.
func (w *firstError) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.to.Write(p)
	w.err = err
	return n, err
}

// complain writes each line of a message to standard error. What is in it may
// come from a server, so that it is never written as it is.
func (e *env) complain(message string) {
	for line := range strings.Lines(message) {
		fmt.Fprintf(e.Stderr, "signalbox: %s\n", visible(strings.TrimRight(line, "\r\n")))
	}
}

// newRoot makes the command with all that are below it. Nothing is kept between
// two of them: tests make one for each command line.
func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "signalbox",
		Short: "One MCP endpoint in front of many MCP servers",
		Long: `One MCP endpoint in front of many MCP servers: any client, of any protocol
version, uses any server, of any protocol version.`,
		Version:           versionOf(buildInfo()),
		Args:              knownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	// At a distance of more than two letters nearly every word is near another.
	root.SuggestionsMinimumDistance = 2
	root.Flags().Bool("version", false, "print the version") // else cobra gives it the letter of --verbose
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newServe(e),
		newTools(e), newResources(e), newPrompts(e),
		newCall(e), newRead(e),
		newStatus(e), newReload(e), newCheck(e), newVersion(e),
	)
	root.SetHelpCommand(newHelp())
	demandShell(root)
	return root
}

// newHelp is cobra's help command, but that a command which does not exist is
// the mistake that it is everywhere else, and not a success.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if len(rest) > 0 {
				return knownCommand(found, rest)
			}
			return found.Help()
		},
	}
}

// demandShell has cobra's completion command refuse a shell that it does not
// know. Alone it would print its help where a shell is to read a script.
func demandShell(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Args = knownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

// knownCommand refuses a command that there is not, with the ones that it could
// be.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// The nearest only: a list of all stands in the help, to which the message leads.
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return usagef("unknown command %q", args[0])
}

// argsBetween is a cobra.PositionalArgs that wants so many arguments; what names
// them for the message.
func argsBetween(low, high int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return usagef("%d arguments, want %s", len(args), what)
		}
		return nil
	}
}

// interruptible returns a context that the first interrupt or termination ends.
// The second ends the process, as signals do. The function that it returns waits
// for nothing and lets the signals go.
func (e *env) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	arrived, stop := e.Signals(os.Interrupt, syscall.SIGTERM)
	// Ends with ctx, which the caller of interruptible ends.
	go func() {
		defer stop()
		select {
		case <-arrived:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
