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
	"syscall"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
)

// join returns the running gateway that serves a file, or nil if no gateway does. A gateway
// that serves only a client on stdio is not joined: its backends' processes belong to that
// client.
func (f *targetFlags) join(ctx context.Context, e *env, file string) (*target, error) {
	folder, err := e.controlFolder(file)
	if err != nil {
		return nil, nil //nolint:nilerr // without a folder there is no socket
	}
	for _, path := range socketsIn(folder) {
		transport := socketTransport(path)
		gateway, err := gatewayAt(ctx, transport)
		if err == nil && gateway.Joinable {
			e.printError(fmt.Sprintf("using the running gateway, process %d", gateway.Process))
			return joined(transport, f.logger(e, &config.Config{})), nil
		}
		transport.CloseIdleConnections()
		if err != nil && !isGone(err) {
			return nil, fmt.Errorf("the gateway at %s does not respond: %w; use --alone to start the backends anew", path, err)
		}
	}
	return nil, nil
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

// joined returns the gateway of a socket as the target of a command.
func joined(socket *http.Transport, logger *slog.Logger) *target {
	c := client.NewHTTP(socketURL(joinPath), client.Config{
		Name:      "running gateway",
		Transport: socket,
		Info:      implementation(),
		Logger:    logger,
	})
	return &target{
		Handler: c,
		status:  func(ctx context.Context) (*signalbox.Status, error) { return statusAt(ctx, socket) },
		close: func() error {
			defer socket.CloseIdleConnections()
			return c.Close()
		},
	}
}

// isGone reports whether an error means that no process listens on a socket any more.
func isGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
