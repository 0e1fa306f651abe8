// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
)

const (
	// awaitTime is how long connect waits for a client, and awaitInterval how often it looks.
	awaitTime     = time.Minute
	awaitInterval = 200 * time.Millisecond
)

// awaitClient waits until a client has come to the running gateway of the configuration, and
// prints it. If it does not come, that is an error only if it must.
func awaitClient(ctx context.Context, e *command.Env, c *connection, since time.Time, must bool) error {
	ctx, done := e.Interruptible(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	if !c.running && c.gateway.URL != "" && !must {
		return nil // nothing can come
	}
	fmt.Fprintf(e.Stderr, "waiting for %s ... ", c.client.ID)
	text, err := seeClient(ctx, e, c, since)
	if err != nil {
		fmt.Fprintln(e.Stderr)
		if must {
			return err
		}
		e.PrintError(err.Error())
		return nil
	}
	fmt.Fprintln(e.Stderr, output.VisibleLine(text))
	return nil
}

// seeClient looks for the client again and again.
func seeClient(ctx context.Context, e *command.Env, c *connection, since time.Time) (string, error) {
	for {
		gateways, _ := control.Running(ctx, e, c.config) // the next look may find one
		for _, g := range gateways {
			text := arrived(ctx, g.Socket, c, since)
			if text != "" {
				control.CloseIdle(gateways)
				return text, nil
			}
		}
		control.CloseIdle(gateways)
		select {
		case <-time.After(awaitInterval):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return "", fmt.Errorf("%s has not come within %v", c.client.Name, awaitTime)
			}
			return "", errors.New("interrupted")
		}
	}
}

// arrived describes the client that has come to the gateway of a socket since a time, or
// returns "". What names clients give themselves is not known, so that also another name is
// taken if it is a new one.
func arrived(ctx context.Context, socket *http.Transport, to *connection, since time.Time) string {
	seen, _ := control.At[[]signalbox.ClientStatus](ctx, socket, control.ClientsPath) // the next look may have an answer
	for _, c := range seen {
		own := strings.Contains(strings.ToLower(c.Name), strings.ToLower(to.client.ID))
		if c.Name == target.ClientName || c.Last.Before(since) || !own && c.First.Before(since) {
			continue
		}
		text := "connected"
		if n, err := toolsAt(ctx, socket, to.profile); err == nil {
			text += ", " + output.Plural(n, "tool")
		}
		return fmt.Sprintf("%s (%s %s, %s)", text, c.Name, c.Version, c.Protocol)
	}
	return ""
}

// toolsAt returns the number of tools that the gateway of a socket offers, or a profile of it.
func toolsAt(ctx context.Context, socket *http.Transport, profile string) (int, error) {
	if profile == "" {
		tools, err := control.ToolBackendsAt(ctx, socket)
		return len(tools), err
	}
	status, err := control.StatusAt(ctx, socket)
	if err != nil {
		return 0, err
	}
	if err := profiles.Narrow(status, profile); err != nil {
		return 0, err
	}
	return status.Profiles[0].Tools, nil
}
