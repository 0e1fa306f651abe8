// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
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

// PrintReloads waits until each gateway that serves a file has applied a change of it, or has
// refused it, and prints what each has done. since is the time of the change, and isApplied
// reports whether the status of a gateway is one after it.
func PrintReloads(ctx context.Context, e *command.Env, file string, since time.Time, isApplied func(*signalbox.Status) bool) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for _, path := range socketsOf(e, file) {
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
	gateway, err := infoAt(ctx, socket)
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

// Reload makes each gateway that serves a file reload it, because its operator asks for it, and
// yields the results. An error is about one gateway.
func Reload(ctx context.Context, e *command.Env, file string) iter.Seq2[*ReloadResult, error] {
	return func(yield func(*ReloadResult, error) bool) {
		for _, path := range socketsOf(e, file) {
			socket := Transport(path)
			result := new(ReloadResult)
			err := post(ctx, socket, ReloadPath, result)
			socket.CloseIdleConnections()
			if !IsGone(err) && !yield(result, err) {
				return
			}
		}
	}
}

// ChangeServer makes the gateway of a socket change a server: retry, stop or restart it.
func ChangeServer(ctx context.Context, socket *http.Transport, verb, name string) (*ServerResult, error) {
	result := new(ServerResult)
	return result, post(ctx, socket, ServersPath+url.PathEscape(name)+"/"+verb, result)
}

// post decodes the response to a POST to the gateway of a socket.
func post(ctx context.Context, socket *http.Transport, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	resp, err := RoundTrip(ctx, socket, http.MethodPost, URL(path), nil)
	if err != nil {
		return err
	}
	if err := Decode(resp.Body, into); err != nil || resp.Code != http.StatusOK {
		return fmt.Errorf("the gateway responded with HTTP status %d; it may be another version of Signalbox", resp.Code)
	}
	return nil
}
