// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/signalbox-mcp/signalbox/internal/shellpath"
)

// env is the environment of a command. A command uses nothing outside of it, so that
// tests can run it in their own process.
type env struct {
	// Stdin, Stdout and Stderr are the standard streams. Only Terminal tests whether one
	// is a terminal.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// LookupEnv is os.LookupEnv for the commands and for configurations. Backends
	// inherit the environment of the process regardless.
	LookupEnv func(string) (string, bool)

	// Dir is the working directory; "" means that of the process, and keeps relative
	// paths in messages.
	Dir string

	// Signals starts delivering the signals, until stop is called.
	Signals func(sigs ...os.Signal) (arrived <-chan os.Signal, stop func())

	// Terminal reports whether a stream is a terminal.
	Terminal func(stream any) bool

	// Shell is the login shell of the user, or nil.
	Shell *shellpath.Shell
}

func osEnv() *env {
	return &env{
		Stdin:     os.Stdin,
		Stdout:    os.Stdout,
		Stderr:    os.Stderr,
		LookupEnv: os.LookupEnv,
		Signals: func(sigs ...os.Signal) (<-chan os.Signal, func()) {
			// One more than the two signals that have a meaning: signals are dropped if the
			// channel is full.
			c := make(chan os.Signal, 3)
			signal.Notify(c, sigs...)
			return c, func() { signal.Stop(c) }
		},
		Terminal: isTerminal,
		Shell:    shellpath.New(os.Getenv("SHELL")),
	}
}

// isTerminal reports whether a stream is a character device other than the null device.
// That includes a few devices that an ioctl would exclude, but no usual standard stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}

// path returns name relative to the working directory.
func (e *env) path(name string) string {
	if e.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Dir, name)
}

// loginPath returns the PATH of the user's login shell, or "".
func (e *env) loginPath(ctx context.Context) string {
	if e.Shell == nil {
		return ""
	}
	return e.Shell.Path(ctx)
}
