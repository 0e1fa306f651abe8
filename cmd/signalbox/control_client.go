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
		s := newSocketClient(path)
		gateway, err := s.gateway(ctx)
		switch {
		case err != nil && !isGone(err):
			s.transport.CloseIdleConnections()
			return nil, fmt.Errorf("the gateway at %s does not respond: %w; use --alone to start the backends anew", path, err)
		case err == nil && gateway.Joinable:
			e.printError(fmt.Sprintf("using the running gateway, process %d", gateway.Process))
			return s.target(f.logger(e, &config.Config{})), nil
		}
		s.transport.CloseIdleConnections()
	}
	return nil, nil
}

// socketClient makes HTTP requests to the gateway at a socket.
type socketClient struct{ transport *http.Transport }

func newSocketClient(path string) socketClient {
	return socketClient{&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, path) },
	}}
}

// socketURL returns the URL of a path on a socket, with a host that every gateway accepts.
func socketURL(path string) string { return "http://localhost" + path }

// get returns the status code and the body of the response to a GET.
func (s socketClient) get(ctx context.Context, path string) (int, []byte, error) {
	ctx, cancel := withStatusTimeout(ctx)
	defer cancel()
	return s.do(ctx, http.MethodGet, path)
}

// do makes a request without a body. It returns the status code and the body of the response.
func (s socketClient) do(ctx context.Context, method, path string) (int, []byte, error) {
	resp, body, err := roundTrip(ctx, s.transport, method, socketURL(path), http.Header{})
	if err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, body, nil
}

// gateway returns the gatewayInfo. A gateway of an earlier version does not have the path,
// and cannot be joined.
func (s socketClient) gateway(ctx context.Context) (*gatewayInfo, error) {
	status, body, err := s.get(ctx, gatewayPath)
	if err != nil {
		return nil, explainDial(ctx, err)
	}
	a := new(gatewayInfo)
	if status == http.StatusOK {
		err = decode(body, a)
	}
	return a, err
}

func (s socketClient) status(ctx context.Context) (*signalbox.Status, error) {
	code, body, err := s.get(ctx, statusPath)
	switch {
	case err != nil:
		return nil, explainDial(ctx, err)
	case code != http.StatusOK:
		return nil, fmt.Errorf("HTTP status %d", code)
	}
	decoded, err := decodeStatus(body)
	if err != nil {
		return nil, err
	}
	return &decoded.Status, nil
}

// target returns the gateway as the target of a command.
func (s socketClient) target(logger *slog.Logger) *target {
	c := client.NewHTTP(socketURL(joinPath), client.Config{
		Name:      "running gateway",
		Transport: s.transport,
		Info:      implementation(),
		Logger:    logger,
	})
	return &target{
		Handler: c,
		status:  s.status,
		close: func() error {
			defer s.transport.CloseIdleConnections()
			return c.Close()
		},
	}
}

// isGone reports whether an error means that no process listens on a socket any more.
func isGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
