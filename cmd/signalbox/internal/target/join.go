// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/config"
)

// join returns the running gateway that serves a file, or nil if no gateway does. A gateway
// that serves only a client on stdio is not joined: its backends' processes belong to that
// client.
func (f *Flags) join(ctx context.Context, e *command.Env, file string) (*Target, error) {
	found, err := control.Running(ctx, e, file)
	if len(found) > 0 && found[0].Joinable {
		control.CloseIdle(found[1:])
		e.PrintError(fmt.Sprintf("using the running gateway, process %d", found[0].Process))
		t := joined(found[0].Socket, f.Profile, f.logger(e, &config.Config{}))
		if f.Profile != "" {
			if _, err := t.Status(ctx); err != nil { // the profile may be missing
				return nil, errors.Join(err, t.close())
			}
		}
		return t, nil
	}
	control.CloseIdle(found)
	if err != nil {
		return nil, fmt.Errorf("%w; use --alone to start the backends anew", err)
	}
	return nil, nil
}

// joined returns a gateway of a socket, or one profile of it, as the target of a command.
func joined(socket *http.Transport, profile string, logger *slog.Logger) *Target {
	path := control.JoinPath
	if profile != "" {
		path = profiles.Path(control.JoinPath, profile)
	}
	c := client.NewHTTP(control.URL(path), client.Config{
		Name:      "running gateway",
		Transport: socket,
		Info:      implementation(),
		Logger:    logger,
	})
	t := &Target{
		Handler: c,
		Status:  func(ctx context.Context) (*signalbox.Status, error) { return control.StatusAt(ctx, socket) },
		ToolBackends: func(ctx context.Context) (map[string]string, error) {
			return control.ToolBackendsAt(ctx, socket)
		},
		Definitions: func(ctx context.Context) (*signalbox.Definitions, error) { return control.DefinitionsAt(ctx, socket) },
		Calls: func(ctx context.Context, f signalbox.CallFilter) ([]signalbox.CallRecord, error) {
			records, err := control.CallsAt(ctx, socket, f)
			return records.Calls, err
		},
		close: func() error {
			defer socket.CloseIdleConnections()
			return c.Close()
		},
	}
	t.only(profile)
	return t
}
