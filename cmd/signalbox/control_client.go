// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"

	"github.com/spf13/cobra"

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
	req, err := http.NewRequestWithContext(ctx, method, socketURL(path), http.NoBody)
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

// newReload returns the command that reloads the file of a running gateway.
func newReload(e *env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration file of a running gateway",
		Long: `Reload the configuration file in all gateways of this user that serve it. A file with
a mistake is rejected, and the previous configuration stays in effect.

Without --config, the file that serve would use here is reloaded. To reload a gateway of
another user, or in a container, send SIGHUP to its process.`,
		Args: argsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.askReload(cmd.Context(), file) },
	}
	configFlag(cmd, &file)
	return cmd
}

// askReload asks every gateway that serves a file to reload it, and prints the results.
func (e *env) askReload(ctx context.Context, flag string) error {
	src := e.source(flag)
	if src.isDemo() {
		return usagef("%s; name the file with --config", e.nothingFound())
	}
	folder, err := e.controlFolder(src.path)
	if err != nil {
		return fmt.Errorf("reload %s: %w", src.path, err)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	asked, failed := 0, 0
	for _, socket := range socketsIn(folder) {
		answer, err := askSocket(ctx, socket)
		if isGone(err) {
			continue
		}
		asked++
		if err != nil || len(answer.Problems) > 0 {
			failed++
		}
		if err := e.printReload(src.path, answer, err); err != nil {
			return err
		}
	}
	switch {
	case asked == 0:
		return fmt.Errorf("no running gateway of this user serves %s; start one with 'signalbox serve', or send SIGHUP to the process if it is another user's", src.path)
	case failed > 0:
		return fmt.Errorf("reload %s: %s of %d rejected it; the previous configuration stays in effect", src.path, plural(failed, "gateway"), asked)
	}
	return nil
}

// printReload prints the result of one reload, each problem on a line.
func (e *env) printReload(file string, a *reloadResult, err error) error {
	if err != nil {
		return e.printText(e.Stdout, fmt.Sprintf("%s: %v\n", file, err))
	}
	text := ""
	for _, p := range a.Problems {
		text += p + "\n"
	}
	if text == "" {
		text = fmt.Sprintf("%s: reloaded by process %d, %s\n", file, a.Process, plural(a.Backends, "backend"))
	}
	return e.printText(e.Stdout, text)
}

// isGone reports whether an error means that no process listens on a socket any more.
func isGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// askSocket asks the gateway at a socket to reload.
func askSocket(ctx context.Context, socket string) (*reloadResult, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	s := newSocketClient(socket)
	defer s.transport.CloseIdleConnections()
	status, body, err := s.do(ctx, http.MethodPost, reloadPath)
	if err != nil {
		return nil, err
	}
	a := new(reloadResult)
	if err := decode(body, a); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("the gateway responded with HTTP status %d; it may be another version of Signalbox", status)
	}
	return a, nil
}
