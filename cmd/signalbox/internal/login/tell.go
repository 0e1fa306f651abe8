// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

const (
	tellTimeout   = 10 * time.Second
	retryInterval = 300 * time.Millisecond
)

// tell makes the running gateways of a file reach a server now, and prints those that do.
func tell(ctx context.Context, e *command.Env, file, server string) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	found, _ := control.Running(ctx, e, file) // one that does not respond finds the grant itself
	defer control.CloseIdle(found)
	for _, gateway := range found {
		reread(ctx, gateway.Socket)
		b := retry(ctx, gateway.Socket, server)
		// A gateway of an earlier version looks for grants of other processes once a second. Lists of
		// users come when a client of the user does.
		for b != nil && b.Code == code.AuthSignIn && b.Users == nil && pause(ctx, retryInterval) {
			b = retry(ctx, gateway.Socket, server)
		}
		if b != nil && control.IsUp(b) {
			e.PrintError(fmt.Sprintf("process %d, the running gateway, has %s of %s", gateway.Process, control.ItemCounts(b), server))
		}
	}
}

// notifyOfLogout makes the running gateways of a file read the access of users now.
func notifyOfLogout(ctx context.Context, e *command.Env, file string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	found, _ := control.Running(ctx, e, file) // one that does not respond finds the change itself
	defer control.CloseIdle(found)
	for _, gateway := range found {
		reread(ctx, gateway.Socket)
	}
}

// reread makes a gateway read the access of users. One of an earlier version does so by itself only.
func reread(ctx context.Context, socket *http.Transport) {
	_, _ = control.RoundTrip(ctx, socket, http.MethodPost, control.URL(control.AccessPath), nil)
}

// retry makes a gateway reach a server, and returns the state of the server, or nil.
func retry(ctx context.Context, socket *http.Transport, server string) *signalbox.BackendStatus {
	result, err := control.ChangeServer(ctx, socket, "retry", server)
	if err != nil {
		return nil
	}
	return result.Backend
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
