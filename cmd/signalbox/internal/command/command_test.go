// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

func TestPrintForATerminal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		terminal bool
		text     string
		json     string
	}{
		{"terminal", true, `\x1b[1m`, `{"a":"\u009b\udb40\udc41"}`},
		{"pipe", false, "\x1b[1m", "{\"a\":\"\u009b\U000e0041\"}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			e.Terminal = func(any) bool { return tt.terminal }
			if err := e.PrintText(e.Stdout, "\x1b[1m"); err != nil {
				t.Fatal(err)
			}
			if err := e.PrintJSON([]byte("{\"a\":\"\u009b\U000e0041\"}")); err != nil {
				t.Fatal(err)
			}
			if got, want := e.Out.String(), tt.text+tt.json+"\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// Every line of a server's message has the prefix of the command, so that it is not mistaken
// for a line of the shell or of another program.
func TestPrintErrorMarksEachLine(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	e.PrintError("one\r\n\x1b[1mtwo\n")
	if got, want := e.Err.String(), "signalbox: one\nsignalbox: \\x1b[1mtwo\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInterruptible(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	ctx, done := e.Interruptible(t.Context())
	e.Arrived <- syscall.SIGTERM
	<-ctx.Done()
	done()
	ctx, done = e.Interruptible(t.Context())
	done()
	if ctx.Err() == nil {
		t.Error("the context goes on")
	}
}

func TestIsTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, stream := range []any{null, r, w, strings.NewReader("")} {
		if command.OSEnv().Terminal(stream) {
			t.Errorf("%T is a terminal", stream)
		}
	}
}
