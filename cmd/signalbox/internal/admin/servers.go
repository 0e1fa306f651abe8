// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admin has the commands that act on running gateways: reload, retry, stop and
// restart.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// NewServerCommands returns the commands that change one server.
func NewServerCommands(e *command.Env) []*cobra.Command {
	var cmds []*cobra.Command
	for _, c := range []struct{ verb, short, long string }{
		{"retry", "Reach a server of a running gateway now", `Make a running gateway try now to reach a server that has failed, without waiting for the
next attempt, and fetch its lists. The state of the server afterwards is printed.`},
		{"stop", "End the processes of a server of a running gateway", `End the processes of a server in a running gateway. Its tools stay listed, and the next
call starts it. Calls in progress may end within drain.timeout; the outcome of those that
have not ended then is unknown. What the server has kept for its clients is lost.`},
		{"restart", "Start a server of a running gateway anew", `Start a server of a running gateway anew. Further calls use the new process or, for a
server on HTTP, new sessions. Calls in progress may end within drain.timeout; the outcome of
those that have not ended then is unknown. What the server has kept for its clients is lost.
The state of the server afterwards is printed.`},
	} {
		var file string
		cmd := &cobra.Command{
			Use:   c.verb + " NAME",
			Short: c.short,
			Long: c.long + `

All gateways of this user that serve the configuration file are asked.`,
			Args: command.ArgsBetween(1, 1, "the NAME of a server"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return changeServer(cmd.Context(), e, file, c.verb, args[0])
			},
		}
		source.Flag(cmd, &file)
		cmds = append(cmds, cmd)
	}
	return cmds
}

// changeServer asks every gateway that serves a file for a change of one server, and prints
// the results.
func changeServer(ctx context.Context, e *command.Env, flag, verb, name string) error {
	src, err := source.FindFile(e, flag)
	if err != nil {
		return err
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	found, err := control.Running(ctx, e, src.Path)
	defer control.CloseIdle(found)
	if len(found) == 0 && err == nil {
		return fmt.Errorf("no running gateway of this user serves %s; start one with 'signalbox serve'", src.Path)
	}
	failed := false
	errs := []error{err} // about one that does not respond
	for _, gateway := range found {
		ok, err := changeServerAt(ctx, e, gateway.Socket, verb, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: process %d: %w", verb, name, gateway.Process, err))
		}
		failed = failed || err == nil && !ok
	}
	if failed {
		errs = append(errs, fmt.Errorf("%s is not available; 'signalbox doctor %s' looks for the cause", name, name))
	}
	return errors.Join(errs...)
}

// changeServerAt asks one gateway, and prints the state of the server afterwards. It reports
// whether the server is available.
func changeServerAt(ctx context.Context, e *command.Env, socket *http.Transport, verb, name string) (ok bool, err error) {
	a, err := control.ChangeServer(ctx, socket, verb, name)
	switch {
	case err != nil:
		return false, err
	case a.Unknown:
		return false, errors.New("the configuration in use has no enabled server of that name; 'signalbox status' lists them")
	case a.Backend == nil:
		return false, errors.New(a.Problem)
	}
	b := a.Backend
	text := fmt.Sprintf("%s is %s", output.VisibleLine(b.Name), output.VisibleLine(b.State))
	switch {
	case verb == "stop":
		text += "; the next call starts it"
	case control.IsUp(b):
		text += ", " + control.ItemCounts(b)
	case b.Reason != "":
		text += ": " + output.VisibleLine(b.Reason) + output.CodeSuffix(b.Code)
	}
	return control.IsUp(b), e.PrintText(e.Stdout, text+"\n")
}
