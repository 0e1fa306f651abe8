// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"syscall"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
)

// join returns the running gateway that serves a file, or nil if no gateway does. A gateway
// that serves only a client on stdio is not joined: its backends' processes belong to that
// client.
func (f *targetFlags) join(ctx context.Context, e *env, file string) (*target, error) {
	found, err := e.runningGateways(ctx, file)
	if len(found) > 0 && found[0].Joinable {
		closeIdle(found[1:])
		e.printError(fmt.Sprintf("using the running gateway, process %d", found[0].Process))
		t := joined(found[0].socket, f.profile, f.logger(e, &config.Config{}))
		if f.profile != "" {
			if _, err := t.status(ctx); err != nil { // the profile may be missing
				return nil, errors.Join(err, t.close())
			}
		}
		return t, nil
	}
	closeIdle(found)
	if err != nil {
		return nil, fmt.Errorf("%w; use --alone to start the backends anew", err)
	}
	return nil, nil
}

// runningGateway is a running gateway of this user.
type runningGateway struct {
	*gatewayInfo

	socket *http.Transport
}

// runningGateways returns the gateways that serve a file, those on HTTP first. The error is
// about one that does not respond.
func (e *env) runningGateways(ctx context.Context, file string) ([]runningGateway, error) {
	folder, err := e.stateFolder(file)
	if err != nil {
		return nil, nil //nolint:nilerr // without a folder there is no socket
	}
	var found []runningGateway
	var silent error
	for _, path := range socketsIn(folder) {
		socket := socketTransport(path)
		gateway, err := gatewayAt(ctx, socket)
		if err == nil {
			found = append(found, runningGateway{gateway, socket})
			continue
		}
		socket.CloseIdleConnections()
		if !isGone(err) {
			silent = fmt.Errorf("the gateway at %s does not respond: %w", path, err)
		}
	}
	slices.SortStableFunc(found, func(a, b runningGateway) int {
		switch {
		case a.Joinable == b.Joinable:
			return 0
		case a.Joinable:
			return -1
		default:
			return 1
		}
	})
	return found, silent
}

func closeIdle(gateways []runningGateway) {
	for _, g := range gateways {
		g.socket.CloseIdleConnections()
	}
}

// socketTransport returns a transport with connections to a socket only.
func socketTransport(path string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, path) },
	}
}

// socketURL returns the URL of a path on a socket, with a host that every gateway accepts.
func socketURL(path string) string { return "http://localhost" + path }

// gatewayAt returns the gatewayInfo of a socket. A gateway of an earlier version does not have
// the path, and cannot be joined.
func gatewayAt(ctx context.Context, socket *http.Transport) (*gatewayInfo, error) {
	resp, err := get(ctx, socket, socketURL(gatewayPath), nil)
	if err != nil {
		return nil, err
	}
	a := new(gatewayInfo)
	if resp.code == http.StatusOK {
		err = decode(resp.body, a)
	}
	return a, err
}

// statusAt returns the status of the gateway of a socket.
func statusAt(ctx context.Context, socket *http.Transport) (*signalbox.Status, error) {
	resp, err := get(ctx, socket, socketURL(statusPath), nil)
	switch {
	case err != nil:
		return nil, explainDial(err)
	case resp.code != http.StatusOK:
		return nil, fmt.Errorf("HTTP status %d", resp.code)
	}
	decoded, err := decodeStatus(resp.body)
	if err != nil {
		return nil, err
	}
	return &decoded.Status, nil
}

// toolBackendsAt returns the backend of each tool of the gateway of a socket. It is nil for a
// gateway of an earlier version.
func toolBackendsAt(ctx context.Context, socket *http.Transport) (map[string]string, error) {
	resp, err := get(ctx, socket, socketURL(toolsPath), nil)
	if err != nil {
		return nil, explainDial(err)
	}
	var backends map[string]string
	if resp.code == http.StatusOK {
		err = decode(resp.body, &backends)
	}
	return backends, err
}

// joined returns a gateway of a socket, or one profile of it, as the target of a command.
func joined(socket *http.Transport, profile string, logger *slog.Logger) *target {
	path := joinPath
	if profile != "" {
		path = profilePath(joinPath, profile)
	}
	c := client.NewHTTP(socketURL(path), client.Config{
		Name:      "running gateway",
		Transport: socket,
		Info:      implementation(),
		Logger:    logger,
	})
	t := &target{
		Handler: c,
		status:  func(ctx context.Context) (*signalbox.Status, error) { return statusAt(ctx, socket) },
		toolBackends: func(ctx context.Context) (map[string]string, error) {
			return toolBackendsAt(ctx, socket)
		},
		close: func() error {
			defer socket.CloseIdleConnections()
			return c.Close()
		},
	}
	t.only(profile)
	return t
}

// isGone reports whether an error means that no process listens on a socket any more.
func isGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
