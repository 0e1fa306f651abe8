// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

const (
	// applyTimeout bounds how long a command waits for a gateway to apply a change.
	applyTimeout = 5 * time.Second

	// applyInterval is how often a command looks whether a gateway has applied a change.
	applyInterval = 100 * time.Millisecond
)

// PrintReloads waits until each gateway of the sockets has applied a change of a file that it
// serves, or has refused it, and prints what each has done. since is the time of the change, and
// isApplied reports whether the status of a gateway is one after it.
func PrintReloads(ctx context.Context, e *command.Env, sockets []string, since time.Time, isApplied func(*signalbox.Status) bool) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for _, path := range sockets {
		socket := Transport(path)
		text, err := awaitReload(ctx, socket, since, isApplied)
		socket.CloseIdleConnections()
		if IsGone(err) {
			continue
		}
		if err != nil {
			text = fmt.Sprintf("no gateway is known to have applied it yet: %v; see 'signalbox status'\n", err)
		}
		if err := e.PrintText(e.Stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// awaitReload waits until a gateway has applied a change, or has refused it, and returns a
// text about that.
func awaitReload(ctx context.Context, socket *http.Transport, since time.Time, isApplied func(*signalbox.Status) bool) (string, error) {
	gateway, err := InfoAt(ctx, socket)
	if err != nil {
		return "", err
	}
	for {
		status, err := StatusAt(ctx, socket)
		if err != nil {
			return "", err
		}
		switch refused := status.ReloadRefused; {
		case refused != nil && refused.At.After(since):
			return refusalText(gateway.Process, status), nil
		case isApplied(status):
			return fmt.Sprintf("process %d has applied it, %s\n", gateway.Process, output.Plural(len(status.Backends), "backend")), nil
		}
		select {
		case <-time.After(applyInterval):
		case <-ctx.Done():
			return "", fmt.Errorf("process %d has not read it within %v", gateway.Process, applyTimeout)
		}
	}
}

// refusalText describes why a gateway has not applied a change. These are the first problems
// of its status.
func refusalText(process int, status *signalbox.Status) string {
	var text strings.Builder
	for _, p := range status.Problems[:min(len(status.ReloadRefused.Problems), len(status.Problems))] {
		fmt.Fprintf(&text, "process %d: %s\n", process, p)
	}
	return text.String()
}

// Reload makes the gateway of a socket reload its configuration, because its operator asks for it.
func Reload(ctx context.Context, socket string) (*ReloadResult, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	transport := Transport(socket)
	defer transport.CloseIdleConnections()
	resp, err := RoundTrip(ctx, transport, http.MethodPost, URL(ReloadPath), nil)
	if err != nil {
		return nil, err
	}
	a := new(ReloadResult)
	if err := Decode(resp.Body, a); err != nil || resp.Code != http.StatusOK {
		return nil, fmt.Errorf("the gateway responded with HTTP status %d; it may be another version of Signalbox", resp.Code)
	}
	return a, nil
}
