// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
)

// serversPath is the path below which a server of a gateway is changed:
// POST NAME/retry, NAME/stop and NAME/restart return a serverResult.
const serversPath = "/admin/v1/servers/"

// serverResult is the result of a change of one server.
type serverResult struct {
	Process int                      `json:"process"`
	Problem string                   `json:"problem,omitempty"` // why it was not done
	Unknown bool                     `json:"unknown,omitzero"`  // no backend has the name
	Backend *signalbox.BackendStatus `json:"backend,omitempty"`
}

// newServerCommands returns the commands that change one server.
func newServerCommands(e *env) []*cobra.Command {
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
			Args: argsBetween(1, 1, "the NAME of a server"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.changeServer(cmd.Context(), file, c.verb, args[0])
			},
		}
		configFlag(cmd, &file)
		cmds = append(cmds, cmd)
	}
	return cmds
}

// serveServerChanges serves the paths of all changes of a server.
func (s *service) serveServerChanges(routes *http.ServeMux) {
	for verb, change := range map[string]func(ctx context.Context, name string) (signalbox.BackendStatus, error){
		"retry":   s.gateway.RetryBackend,
		"restart": s.gateway.RestartBackend,
		"stop": func(_ context.Context, name string) (signalbox.BackendStatus, error) {
			return s.gateway.StopBackend(name) //nolint:contextcheck // backends outlive the request
		},
	} {
		routes.HandleFunc("POST "+serversPath+"{name}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			a := serverResult{Process: os.Getpid()}
			state, err := change(r.Context(), r.PathValue("name"))
			if err != nil {
				a.Problem, a.Unknown = err.Error(), errors.Is(err, signalbox.ErrNoBackend)
			} else {
				a.Backend = &state
			}
			writeAnswer(w, a)
		})
	}
}

// changeServer asks every gateway that serves a file for a change of one server, and prints
// the results.
func (e *env) changeServer(ctx context.Context, flag, verb, name string) error {
	src := e.source(flag)
	if !src.hasFile() {
		return usagef("%s; name the file with --config", e.nothingFound())
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	found, err := e.runningGateways(ctx, src.path)
	defer closeIdle(found)
	switch {
	case len(found) == 0 && err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("no running gateway of this user serves %s; start one with 'signalbox serve'", src.path)
	}
	failed := false
	for _, gateway := range found {
		ok, err := e.changeServerAt(ctx, gateway.socket, verb, name)
		if err != nil {
			return fmt.Errorf("%s %s: process %d: %w", verb, name, gateway.Process, err)
		}
		failed = failed || !ok
	}
	if failed {
		return fmt.Errorf("%s is not available; 'signalbox doctor %s' looks for the cause", name, name)
	}
	return nil
}

// changeServerAt asks one gateway, and prints the state of the server afterwards. It reports
// whether the server is available.
func (e *env) changeServerAt(ctx context.Context, socket *http.Transport, verb, name string) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	resp, err := roundTrip(ctx, socket, http.MethodPost, socketURL(serversPath+url.PathEscape(name)+"/"+verb), nil)
	if err != nil {
		return false, err
	}
	a := new(serverResult)
	switch err := decode(resp.body, a); {
	case err != nil || resp.code != http.StatusOK:
		return false, fmt.Errorf("the gateway responded with HTTP status %d; it may be another version of Signalbox", resp.code)
	case a.Unknown:
		return false, errors.New("the configuration in use has no enabled server of that name; 'signalbox status' lists them")
	case a.Backend == nil:
		return false, errors.New(a.Problem)
	}
	b := a.Backend
	text := fmt.Sprintf("%s is %s", visibleLine(b.Name), visibleLine(b.State))
	switch {
	case verb == "stop":
		text += "; the next call starts it"
	case isUp(b):
		text += ", " + itemCounts(b)
	case b.Reason != "":
		text += ": " + visibleLine(b.Reason) + codeSuffix(b.Code)
	}
	return isUp(b), e.printText(e.Stdout, text+"\n")
}
