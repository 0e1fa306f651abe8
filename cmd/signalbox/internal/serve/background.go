// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/logs"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// attachIdle is how long a gateway that attach has started is kept without clients.
const attachIdle = "10m"

// servingLine is what a gateway in the background writes to standard error once it serves.
// If it fails before, it writes its error.
const servingLine = "serving\n"

// maxStartOutput bounds what is read of the error of a gateway that does not start.
const maxStartOutput = 64 << 10

// StartTimeout bounds how long the start of a gateway may take, including that of
// another client that was first.
const StartTimeout = 30 * time.Second

// StartGateway starts a gateway that outlives this process, its group and its tree, and
// returns when it serves. The error is the gateway's own.
//
// A client may end attach with all its descendants. So the process that is started here
// starts the gateway, and ends.
func StartGateway(ctx context.Context, file string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd, err := gatewayCommand(file, "--apart")
	if err != nil {
		return errors.Join(err, write.Close())
	}
	cmd.Stderr = write
	err = cmd.Start()
	_ = write.Close() // the process has it now
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // ends at once: the process only starts another one
	return awaitServing(ctx, read)
}

// startApart starts the gateway as a process that has no parent when this one has ended.
func startApart(e *command.Env, file string) error {
	cmd, err := gatewayCommand(file)
	if err != nil {
		return err
	}
	cmd.Stderr = e.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// gatewayCommand returns the command of a gateway in the background.
func gatewayCommand(file string, flags ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Linux names a program so that was replaced since this process has started.
	program = strings.TrimSuffix(program, " (deleted)")
	args := append([]string{"serve", "--config", file, "--end-when-idle", attachIdle, "--background"}, flags...)
	cmd := exec.Command(program, args...) //nolint:gosec,noctx // this program, which outlives this process
	cmd.Dir = filepath.Dir(file)
	cmd.SysProcAttr = detached()
	return cmd, nil
}

// awaitServing returns when a gateway serves, by what it writes to standard error.
func awaitServing(ctx context.Context, from *os.File) error {
	if at, ok := ctx.Deadline(); ok {
		_ = from.SetReadDeadline(at) // all systems have it for pipes, except Windows
	}
	var said bytes.Buffer
	for said.Len() < maxStartOutput {
		n, err := io.CopyN(&said, from, 1)
		if bytes.HasSuffix(said.Bytes(), []byte(servingLine)) {
			return nil
		}
		if n == 0 {
			return startError(said.String(), err)
		}
	}
	return startError(said.String(), io.EOF)
}

// startError returns what a gateway said that did not start.
func startError(said string, err error) error {
	var lines []string
	for line := range strings.Lines(said) {
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "signalbox: "))
	}
	switch {
	case len(lines) > 0:
		return errors.New(strings.Join(lines, "\n"))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it does not serve after %s", StartTimeout)
	default:
		return errors.New("its process ended without an error")
	}
}

// keepCrashes has the runtime write a crash of this process into the folder of the log.
func keepCrashes(e *command.Env, file string) {
	state, err := source.MakeStateFolder(e, file)
	if err != nil {
		return // the start fails, and reports why
	}
	folder := filepath.Join(state, logs.Folder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return
	}
	if crash, err := os.OpenFile(filepath.Join(folder, "crash.txt"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600); err == nil {
		_ = debug.SetCrashOutput(crash, debug.CrashOptions{}) // without it a crash is not recorded
		_ = crash.Close()                                     // the runtime has a copy
	}
}

// noteEnd logs the error with which a gateway in the background ends.
func (s *service) noteEnd(ctx context.Context, err error) {
	if s.flags.background && err != nil && s.log != nil {
		s.log.ErrorContext(ctx, "the gateway ends with an error", slog.Any("error", err))
	}
}
