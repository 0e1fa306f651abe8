// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
)

// join returns the running gateway that serves a file, or nil if none does. One that
// serves a client on stdio only is not joined: the processes of its backends are that
// client's.
func (f *targetFlags) join(ctx context.Context, e *env, file string) (*target, error) {
	folder, err := e.controlFolder(file)
	if err != nil {
		return nil, nil //nolint:nilerr // without a folder there is no socket in it
	}
	for _, path := range socketsIn(folder) {
		s := newSocketClient(path)
		gateway, err := s.gateway(ctx)
		switch {
		case err != nil && !isGone(err):
			s.transport.CloseIdleConnections()
			return nil, fmt.Errorf("the gateway at %s does not answer: %w; --alone starts the backends anew", path, err)
		case err == nil && gateway.Joinable:
			e.complain(fmt.Sprintf("using the gateway that is running, process %d", gateway.Process))
			return s.target(f.logger(e, &signalbox.Config{})), nil
		}
		s.transport.CloseIdleConnections()
	}
	return nil, nil
}

// socketClient speaks HTTP with the gateway at a socket.
type socketClient struct{ transport *http.Transport }

func newSocketClient(path string) socketClient {
	return socketClient{&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, path) },
	}}
}

// socketURL is the URL of a path on a socket. The host is one that each gateway serves.
func socketURL(path string) string { return "http://localhost" + path }

// get returns the status and the body of the answer to a GET.
func (s socketClient) get(ctx context.Context, path string) (int, []byte, error) {
	ctx, cancel := withStatusTimeout(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, socketURL(path), http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	return resp.StatusCode, body, err
}

// gateway returns what the gateway says of itself. One of an earlier version, which does
// not have the path, is one that cannot be joined.
func (s socketClient) gateway(ctx context.Context) (*gatewayAnswer, error) {
	status, body, err := s.get(ctx, gatewayPath)
	if err != nil {
		return nil, explainDial(ctx, err)
	}
	a := new(gatewayAnswer)
	if status == http.StatusOK {
		err = decode(body, a)
	}
	return a, err
}

// status returns the status of the gateway.
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
		hint: func(err error) error { return err },
	}
}
