// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commandtest runs commands in the process of a test, and has the servers that such
// tests talk to. It is for tests only.
package commandtest

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
)

// WithState gives an env a folder for state.
func WithState(t *testing.T, e *Env) (state string) {
	t.Helper()
	state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	e.LookupEnv = func(name string) (string, bool) { return state, name == StateVariable }
	return state
}

// AwaitText waits until a buffer has a text some times.
func AwaitText(t *testing.T, b *Buffer, text string, times int) {
	t.Helper()
	for start := time.Now(); strings.Count(b.String(), text) < times; {
		if time.Since(start) > Patience {
			t.Fatalf("no %d times %q:\n%s", times, text, b)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// NoExitDelay makes processes with the race detector exit without a delay of a second.
const NoExitDelay = "GORACE=atexit_sleep_ms=0"

// StateVariable is the variable with the folder of gateways' sockets.
const StateVariable = "XDG_STATE_HOME"

// ConfigVariable is the variable with the user's folder for configurations.
const ConfigVariable = "XDG_CONFIG_HOME"

// Env is an env that does not use the process's environment.
type Env struct {
	*command.Env

	Out, Err *Buffer        // standard output and standard error
	Arrived  chan os.Signal // delivers signals to the command
}

// New returns an Env with a folder of its own and stdin as standard input.
func New(t *testing.T, stdin string) *Env {
	t.Helper()
	e := &Env{Out: new(Buffer), Err: new(Buffer), Arrived: make(chan os.Signal, 3)}
	e.Env = &command.Env{
		Stdin:     bytes.NewBufferString(stdin),
		Stdout:    e.Out,
		Stderr:    e.Err,
		LookupEnv: func(string) (string, bool) { return "", false },
		Dir:       t.TempDir(),
		Signals:   func(...os.Signal) (<-chan os.Signal, func()) { return e.Arrived, func() {} },
		Terminal:  func(any) bool { return false },
	}
	return e
}

// Execute runs a command by itself, and not below that of the program.
func (e *Env) Execute(ctx context.Context, cmd *cobra.Command, args ...string) error {
	cmd.SetArgs(append([]string{}, args...)) // not nil, for which cobra uses os.Args
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(ctx)
}

// Buffer is a buffer for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Patience is how long a test waits for what should happen immediately, before it fails.
const Patience = 20 * time.Second

// Write writes a file.
func Write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
