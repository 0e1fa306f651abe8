// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attach has the command attach: it passes the lines of a client on stdio to the
// gateway that serves the configuration file, and starts that gateway if none runs.
package attach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/serve"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/version"
	"github.com/signalbox-mcp/signalbox/internal/hangup"
	"github.com/signalbox-mcp/signalbox/internal/relay"
)

// New returns the command that connects a client on stdio to the running gateway.
func New(e *command.Env) *cobra.Command {
	var file, profile string
	cmd := &cobra.Command{
		Use:   "attach",
		Short: "Connect a client on stdio to the running gateway, and start the gateway if needed",
		Long: `Connect one client on standard input and output to the gateway that serves the
configuration file, for clients that can only start programs. All clients that attach
share one gateway. If none runs, it is started apart from this command, in the folder of
the file and with the environment of this command; it ends 10 minutes after its last
client has left. 'signalbox logs' prints its log.

Each client has its own session, and its end ends the processes of its session. If the
gateway ends, calls in flight fail with the outcome "unknown", and the next request finds
or starts another gateway.

Without a configuration file this is 'serve --stdio'.`,
		Args: command.ArgsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return attach(cmd.Context(), e, file, profile) },
	}
	source.Flag(cmd, &file)
	profiles.Flag(cmd, &profile, "only what a `PROFILE` of the gateway offers")
	return cmd
}

func attach(ctx context.Context, e *command.Env, flag, profile string) error {
	src := source.Find(e, flag)
	if !src.HasFile() {
		return serve.OneClient(ctx, e, profile)
	}
	if err := src.RefuseLoop(); err != nil {
		return err
	}
	file, err := filepath.Abs(src.Path)
	if err != nil {
		return err
	}
	folder, err := source.StateFolder(e, file)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	a := &attacher{Env: e, file: file, folder: folder, version: version.Program(), profile: profile, start: serve.StartGateway}
	releaseStartPages()
	isGone := func() bool { return hangup.Within(e.Stdout, hangupWait) }
	return relay.New(relay.Config{Connect: a.connect, Join: a.join, IsGone: isGone, Report: e.PrintError}).Run(ctx, e.Stdin, e.Stdout)
}

// attacher finds and starts the gateway of a file.
type attacher struct {
	*command.Env

	file, folder string
	version      string                                       // of this program
	profile      string                                       // of the gateway; empty means everything
	start        func(ctx context.Context, file string) error // returns when the gateway serves
}

const (
	// attachTimeout bounds how long a gateway may take to accept a client.
	attachTimeout = 5 * time.Second

	// drainWait is how long the end of a gateway is waited for before another one is
	// started, so that there is one at a time.
	drainWait = 3 * time.Second

	// hangupWait is how long after the end of the input a client that is killed may still
	// seem to read.
	hangupWait = 50 * time.Millisecond

	// lookInterval is the time between two looks at something that another process does.
	lookInterval = 10 * time.Millisecond
)

// connect returns a connection to the gateway, which it starts if none runs. A lock
// makes clients that come at the same time start one.
func (a *attacher) connect(ctx context.Context) (relay.Conn, error) {
	if conn, err := a.find(ctx); conn != nil || err != nil && !errors.Is(err, errDraining) {
		return asConn(conn), err
	}
	ctx, cancel := context.WithTimeout(ctx, serve.StartTimeout)
	defer cancel()
	if _, err := source.MakeStateFolder(a.Env, a.file); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(a.folder, "start.lock"))
	switch _, err := lock.TryLockContext(ctx, lookInterval); {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("another client has been starting the gateway for %s; end the process that has locked %s", serve.StartTimeout, lock.Path())
	case err != nil:
		return nil, fmt.Errorf("the gateway cannot be started without its lock: %w", err)
	}
	defer func() { _ = lock.Close() }() // also unlocks
	conn, err := a.findAfterDrain(ctx)
	if conn != nil || err != nil {
		return asConn(conn), err
	}
	if err := a.start(ctx, a.file); err != nil {
		return nil, fmt.Errorf("the gateway did not start: %w", err)
	}
	conn, err = a.find(ctx)
	if conn == nil && err == nil {
		err = errors.New("the gateway ended as soon as it had started; see 'signalbox logs --config " + a.ShellPath(a.file) + "'")
	}
	return asConn(conn), err
}

// join returns a connection to a gateway that runs already, or nil.
func (a *attacher) join(ctx context.Context) relay.Conn {
	conn, _ := a.find(ctx) // the error is reported to the next request
	return asConn(conn)
}

// asConn avoids an interface with a nil in it.
func asConn(conn *attachedConn) relay.Conn {
	if conn == nil {
		return nil
	}
	return conn
}

var errDraining = errors.New("the gateway is shutting down")

// findAfterDrain is find after a gateway that is shutting down has ended, or after
// drainWait.
func (a *attacher) findAfterDrain(ctx context.Context) (*attachedConn, error) {
	late := time.NewTimer(drainWait)
	defer late.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		conn, err := a.find(ctx)
		if !errors.Is(err, errDraining) {
			return conn, err
		}
		select {
		case <-look.C:
		case <-late.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// find returns a connection to a running gateway, or nil. One that a user has started has
// precedence. The error is errDraining, or about a gateway that does not respond.
func (a *attacher) find(ctx context.Context) (*attachedConn, error) {
	var found *attachedConn
	var problem error
	for _, path := range control.Sockets(a.folder) {
		conn, err := a.dial(ctx, path)
		switch {
		case err != nil:
			problem = err
		case conn == nil:
		case found == nil:
			found = conn
		case found.background && !conn.background:
			_ = found.Close()
			found = conn
		default:
			_ = conn.Close()
		}
	}
	if found == nil {
		return nil, problem
	}
	if found.version != a.version {
		a.PrintError(control.OldGateway(found.process, found.version, a.version, found.background))
	}
	return found, nil
}

// attachedConn is the connection to a gateway.
type attachedConn struct {
	*net.UnixConn

	read             *bufio.Reader // has what arrived with the response
	process, version string
	background       bool // the gateway was started by attach
}

func (c *attachedConn) Read(p []byte) (int, error) {
	if c.read.Buffered() > 0 {
		return c.read.Read(p)
	}
	return c.UnixConn.Read(p)
}

// dial attaches to the gateway of a socket. It returns nil if none listens there, or one
// that serves only its own client.
func (a *attacher) dial(ctx context.Context, path string) (_ *attachedConn, err error) {
	conn, err := control.Dial(ctx, path)
	switch {
	case control.IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("connect to the gateway at %s: %w", path, err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.ErrUnsupported, conn.Close())
	}
	attached, err := a.upgrade(ctx, unix)
	if attached == nil {
		_ = conn.Close()
	}
	if _, ok := errors.AsType[profiles.MissingError](err); err != nil && !ok && !errors.Is(err, errDraining) {
		err = fmt.Errorf("the gateway at %s does not respond: %w; end its process", path, err)
	}
	return attached, err
}

// upgrade makes a connection one of lines. It returns nil if the gateway has ended, or does
// not accept clients.
func (a *attacher) upgrade(ctx context.Context, conn *net.UnixConn) (*attachedConn, error) {
	_ = conn.SetDeadline(time.Now().Add(attachTimeout)) // fails only if the connection is closed
	path := control.StdioPath
	if a.profile != "" {
		path = profiles.Path(control.StdioPath, a.profile)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, control.URL(path), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", control.UpgradeProtocol)
	request.Header.Set(control.VersionHeader, a.version)
	if err := request.Write(conn); err != nil {
		return nil, unlessTimeout(err)
	}
	read := bufio.NewReaderSize(conn, 1<<10)
	response, err := http.ReadResponse(read, request)
	if err != nil {
		return nil, unlessTimeout(err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusSwitchingProtocols:
	case http.StatusServiceUnavailable:
		return nil, errDraining
	case http.StatusBadRequest:
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // a part is better than nothing
		return nil, profiles.Missing(output.FirstLine(text))
	default:
		return nil, nil
	}
	_ = conn.SetDeadline(time.Time{})
	return &attachedConn{
		UnixConn: conn, read: read, process: response.Header.Get(control.ProcessHeader), version: response.Header.Get(control.VersionHeader),
		background: response.Header.Get(control.BackgroundHeader) != "",
	}, nil
}

// unlessTimeout returns err if it is a timeout. All other errors mean that the gateway has
// just ended.
func unlessTimeout(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}
