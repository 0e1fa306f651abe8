// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

// env is the world around a command. Commands reach for nothing outside of it,
// so that a test can run them in its own process.
type env struct {
	// Stdin, Stdout and Stderr are the standard streams. A terminal is known by
	// Terminal only, and nothing else is asked of them.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// LookupEnv is os.LookupEnv for the commands and for configurations. What a
	// backend inherits is the process's own environment all the same.
	LookupEnv func(string) (string, bool)

	// Dir is the working directory; "" is the process's own, and keeps the paths
	// in messages as they were given.
	Dir string

	// Signals begins to deliver the signals, until stop is called.
	Signals func(sigs ...os.Signal) (arrived <-chan os.Signal, stop func())

	// Terminal reports whether a stream is a terminal.
	Terminal func(stream any) bool
}

// osEnv is the world of the process.
func osEnv() *env {
	return &env{
		Stdin:     os.Stdin,
		Stdout:    os.Stdout,
		Stderr:    os.Stderr,
		LookupEnv: os.LookupEnv,
		Signals:   osSignals,
		Terminal:  isTerminal,
	}
}

// osSignals is env.Signals of the process.
func osSignals(sigs ...os.Signal) (arrived <-chan os.Signal, stop func()) {
	// Room for one more than the two that mean something: signals are dropped
	// where nobody waits for them.
	c := make(chan os.Signal, 3)
	signal.Notify(c, sigs...)
	return c, func() { signal.Stop(c) }
}

// isTerminal reports whether a stream is a character device other than the null
// device. That takes a few more things for terminals than an ioctl would, and
// none that a command could be started with by accident.
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

// path returns a path that was given in the working directory.
func (e *env) path(name string) string {
	if e.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Dir, name)
}
