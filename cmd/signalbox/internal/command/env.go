// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command has what the commands of signalbox have in common: their environment,
// their flags, and the errors that decide the exit status of the program.
//
// A command uses the outside world only through its Env, so that tests can run it in their
// own process. What it prints for people goes through PrintText, PrintJSON and PrintError,
// which escape text of servers on a terminal.
package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/internal/shellpath"
)

// Env is the environment of a command. A command uses nothing outside of it, so that
// tests can run it in their own process.
type Env struct {
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

// OSEnv returns the environment of the process. It may be called once.
func OSEnv() *Env {
	return &Env{
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

// Path returns name relative to the working directory.
func (e *Env) Path(name string) string {
	if e.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Dir, name)
}

// LoginPath returns the PATH of the user's login shell, or "".
func (e *Env) LoginPath(ctx context.Context) string {
	if e.Shell == nil {
		return ""
	}
	return e.Shell.Path(ctx)
}

// Tilde abbreviates the home folder at the beginning of a path.
func (e *Env) Tilde(path string) string {
	home, _ := e.LookupEnv("HOME")
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && home != "" {
		return "~" + string(filepath.Separator) + rest
	}
	return path
}

// ShellPath returns a path as it is written in a shell.
func (e *Env) ShellPath(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("'\"`$&|;<>()*?[]#!\\", r) }) && runtime.GOOS != "windows" {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return e.Tilde(path)
}

// Interruptible returns a context that the first SIGINT or SIGTERM cancels. The second one
// ends the process, as by default. The returned function cancels the context and restores
// the signals, without waiting.
func (e *Env) Interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	arrived, stop := e.Signals(os.Interrupt, syscall.SIGTERM)
	// Ends with ctx, which the caller of Interruptible cancels.
	go func() {
		defer stop()
		select {
		case <-arrived:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// PrintText writes a server's text: unmodified, or visible if w is a terminal.
func (e *Env) PrintText(w io.Writer, text string) error {
	if e.Terminal(w) {
		text = output.Visible(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// PrintJSON writes a server's JSON text and a line break, like PrintText.
func (e *Env) PrintJSON(text []byte) error {
	if e.Terminal(e.Stdout) {
		text = output.VisibleJSON(text)
	}
	_, err := e.Stdout.Write(append(bytes.Clone(text), '\n'))
	return err
}

// PrintValue writes a value as indented JSON.
func (e *Env) PrintValue(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return e.PrintJSON(text)
}

// PrintTable writes rows as output.WriteColumns does.
func (e *Env) PrintTable(rows [][]string, right ...int) error {
	var b bytes.Buffer
	output.WriteColumns(&b, rows, right...)
	_, err := e.Stdout.Write(b.Bytes())
	return err
}

// PrintError writes each line of a message to standard error. Hidden characters are escaped,
// as the message may contain text from a server.
func (e *Env) PrintError(message string) {
	for line := range strings.Lines(message) {
		fmt.Fprintf(e.Stderr, "signalbox: %s\n", output.Visible(strings.TrimRight(line, "\r\n")))
	}
}
