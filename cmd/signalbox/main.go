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
//	lock, approve                  pin the definitions that servers offer, and approve changes
//	policy                         try the policy of a configuration
//	doctor                         start each server once, and print what is wrong
//	import                         import the servers of MCP clients
//	connect, disconnect            write the gateway into the files of MCP clients
//	add, remove, rename,           change one server in a configuration file
//	enable, disable, pin
//	secret                         set, list or remove the secrets of a configuration
//	login, logout, credentials     sign in at the authorization server of a server, sign out,
//	                               and list what there is
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
//     returns, and die with it if it is killed. The exceptions are the gateway that attach
//     starts for all clients, and the browser of login.
//
// This package has only the tree of the commands and the exit codes. The commands are in
// packages below internal, each with a constructor that newRoot calls; the table "The command"
// in docs/architecture.md lists them. The transcripts in testdata/script run the whole program.
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

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/add"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/admin"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/attach"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/connect"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/doctor"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/lock"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/login"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/logs"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/pin"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/requests"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/secrets"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/serve"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/status"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/version"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/why"
)

// main only exits with the code of run, which tests can call.
func main() {
	os.Exit(run(context.Background(), command.OSEnv(), os.Args[1:]))
}

// The exit codes.
const (
	exitOK     = 0 // also if a signal ended a gateway, and for lists without those of a failed backend
	exitFailed = 1 // the command failed, or a tool reported an error
	exitUsage  = 2 // invalid command line; nothing was done
	exitStrict = 3 // with --strict: a backend is not live; everything else was done. For doctor: what failed may pass
)

func run(ctx context.Context, e *command.Env, args []string) int {
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
	if _, ok := errors.AsType[command.UsageError](err); ok {
		e.PrintError(fmt.Sprintf("%v (see '%s --help')", err, cmd.CommandPath()))
		return exitUsage
	}
	e.PrintError(err.Error())
	if _, ok := errors.AsType[command.StrictError](err); ok {
		return exitStrict
	}
	return exitFailed
}

// newRoot returns a new root command with all its subcommands. It shares no state with
// others.
func newRoot(e *command.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "signalbox",
		Short: "One MCP endpoint in front of many MCP servers",
		Long: `One MCP endpoint in front of many MCP servers: clients of any protocol version can
use servers of any protocol version.

To begin, 'signalbox import' finds the servers of your MCP clients, 'signalbox doctor' tries
each of them, and 'signalbox serve' serves them.`,
		Version:           version.Of(version.Info()),
		Args:              command.KnownCommand,
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
		serve.New(e), attach.New(e),
		requests.NewTools(e), requests.NewResources(e), requests.NewPrompts(e),
		requests.NewCall(e), requests.NewRead(e),
		status.New(e), why.New(e), admin.NewReload(e), check.New(e), doctor.New(e), newVersion(e),
		secrets.New(e), login.New(e), login.NewLogout(e), login.NewCredentials(e),
		add.NewImport(e), connect.New(e), connect.NewDisconnect(e),
		add.New(e), edit.NewRemove(e), edit.NewRename(e), edit.NewEnable(e), edit.NewDisable(e),
		lock.New(e), lock.NewApprove(e), logs.New(e), pin.New(e), policy.New(e),
	)
	root.AddCommand(admin.NewServerCommands(e)...)
	root.SetHelpCommand(newHelp())
	// With an unknown shell, cobra's completion command would succeed and print its help where
	// a script is expected.
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = command.KnownCommand, root.RunE
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
				return command.Usagef("%w", err)
			}
			if len(rest) > 0 {
				return command.KnownCommand(found, rest)
			}
			return found.Help()
		},
	}
}

// flagError returns an error of the flag parser without the names of Go functions.
func flagError(_ *cobra.Command, err error) error {
	text, _, isGo := strings.Cut(err.Error(), ": strconv.")
	if isGo && errors.Is(err, strconv.ErrSyntax) {
		return command.Usagef("%s: use true or false", text)
	}
	return command.Usagef("%w", err)
}
