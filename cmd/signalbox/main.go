// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The command signalbox puts one MCP endpoint in front of many MCP servers, and
// talks to such endpoints from a shell.
//
//	serve                          run a Gateway, on HTTP or on stdio
//	attach                         connect a client on stdio to the running Gateway
//	tools, resources, prompts,     make a request to a Gateway, or with --url
//	call, read                     to any MCP server
//	status                         print the state of a running Gateway
//	retry, stop, restart           reach, end, or start anew a server of a running
//	                               Gateway
//	logs                           print its log, or what a server writes to standard error
//	why                            explain why an item is offered or not, or where the time
//	                               of a call went
//	reload                         reload the configuration of a running Gateway
//	check                          validate a configuration
//	doctor                         start each server once, and print what is wrong
//	import                         import the servers of MCP clients
//	connect, disconnect            write the gateway into the files of MCP clients
//	add, remove, rename,           change one server in a configuration file
//	enable, disable, pin
//	secret                         set, list or remove the secrets of a configuration
//
// All commands follow these rules:
//
//   - Standard output has the requested output only. Everything else is written to
//     standard error.
//   - Text from a server is never interpreted: on a terminal, each character that would
//     move the cursor is escaped. A pipe receives the bytes unmodified.
//   - The exit code is 0 for success, 1 for a failure, and 2 for an invalid command line,
//     for which nothing was started. With --strict it is 3 if only some backends are
//     missing, and for doctor if all that it found may pass without a change.
//   - An error names its cause, its place and a cure.
//   - No process outlives the command: the processes that it starts are ended before it
//     returns, and die with it if it is killed. The exception is the gateway that attach starts
//     for all clients.
//
// A command uses the outside world only through its env, so that tests can run it in their
// own process. The transcripts in testdata/script run it as a process.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// main only exits with the code of run, which tests can call.
func main() {
	os.Exit(run(context.Background(), osEnv(), os.Args[1:]))
}

// The exit codes.
const (
	exitOK     = 0 // also if a signal ended a gateway, and for lists without those of a failed backend
	exitFailed = 1 // the command failed, or a tool reported an error
	exitUsage  = 2 // invalid command line; nothing was done
	exitStrict = 3 // with --strict: a backend is not live; everything else was done. For doctor: what failed may pass
)

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// strictError is the error of a command that has succeeded without some of the backends.
type strictError struct{ error }

// strictf is fmt.Errorf for the error of a command that has succeeded without some of the
// backends.
func strictf(format string, args ...any) error {
	return strictError{fmt.Errorf(format, args...)}
}

// usagef is fmt.Errorf for an error of the command line.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

func run(ctx context.Context, e *env, args []string) int {
	root := newRoot(e)                        //nolint:contextcheck // the commands use ctx when they run
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra uses os.Args
	// Cobra ignores errors when it prints help and completions: a truncated script would
	// pass for a complete one. A bufio.Writer returns the first error from Flush.
	printed := bufio.NewWriter(e.Stdout)
	root.SetOut(printed)
	cmd, err := root.ExecuteContextC(ctx)
	// The command's own error takes precedence.
	if err = cmp.Or(err, printed.Flush()); err == nil {
		return exitOK
	}
	if _, ok := errors.AsType[usageError](err); ok {
		e.printError(fmt.Sprintf("%v (see '%s --help')", err, cmd.CommandPath()))
		return exitUsage
	}
	e.printError(err.Error())
	if _, ok := errors.AsType[strictError](err); ok {
		return exitStrict
	}
	return exitFailed
}

// newRoot returns a new root command with all its subcommands. It shares no state with
// others.
func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "signalbox",
		Short: "One MCP endpoint in front of many MCP servers",
		Long: `One MCP endpoint in front of many MCP servers: clients of any protocol version can
use servers of any protocol version.

To begin, 'signalbox import' finds the servers of your MCP clients, 'signalbox doctor' tries
each of them, and 'signalbox serve' serves them.`,
		Version:           versionOf(buildInfo()),
		Args:              knownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	// A larger distance would match nearly every word.
	root.SuggestionsMinimumDistance = 2
	root.Flags().Bool("version", false, "print the version") // otherwise cobra uses the shorthand of --verbose for it
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newServe(e), newAttach(e),
		newTools(e), newResources(e), newPrompts(e),
		newCall(e), newRead(e),
		newStatus(e), newWhy(e), newReload(e), newCheck(e), newDoctor(e), newVersion(e),
		newSecret(e),
		newImport(e), newConnect(e), newDisconnect(e),
		newAdd(e), newRemove(e), newRename(e), newEnable(e), newDisable(e),
		newLogs(e), newPin(e),
	)
	root.AddCommand(newServerCommands(e)...)
	root.SetHelpCommand(newHelp())
	// With an unknown shell, cobra's completion command would succeed and print its help where
	// a script is expected.
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = knownCommand, root.RunE
	}
	return root
}

// newHelp returns cobra's help command, except that an unknown command is an error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usagef("%w", err)
			}
			if len(rest) > 0 {
				return knownCommand(found, rest)
			}
			return found.Help()
		},
	}
}

// knownCommand rejects an unknown command, and suggests a similar one.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// Only the nearest: the help, to which the message refers, lists all.
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return usagef("unknown command %q", args[0])
}

// argsBetween returns a cobra.PositionalArgs that requires low to high arguments. what
// describes them in the error.
func argsBetween(low, high int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return usagef("got %d arguments, want %s", len(args), what)
		}
		return nil
	}
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels. The second one
// ends the process, as by default. The returned function cancels the context and restores
// the signals, without waiting.
func (e *env) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	arrived, stop := e.Signals(os.Interrupt, syscall.SIGTERM)
	// Ends with ctx, which the caller of interruptible cancels.
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

// addWord adds a string flag that rejects the empty string. An empty value is nearly always
// an unset shell variable, and treating it as absent would select another server than
// intended.
func addWord(cmd *cobra.Command, to *string, name, shorthand, usage string) {
	cmd.Flags().FuncP(name, shorthand, usage, func(word string) error {
		if word == "" {
			return errors.New("the value is empty; omit the flag instead")
		}
		*to = word
		return nil
	})
}

func configFlag(cmd *cobra.Command, path *string) {
	addWord(cmd, path, "config", "", "configuration `FILE` (default: "+configNames+", or the user's "+userConfigName+")")
	if err := cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		panic(err) //nolint:forbidigo // the flag was added in the line above
	}
}

// flagError returns an error of the flag parser without the names of Go functions.
func flagError(_ *cobra.Command, err error) error {
	text, _, isGo := strings.Cut(err.Error(), ": strconv.")
	if isGo && errors.Is(err, strconv.ErrSyntax) {
		return usagef("%s: use true or false", text)
	}
	return usagef("%w", err)
}
