// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

// watchInterval is how often the status is drawn.
const watchInterval = time.Second

// Control sequences of terminals (ECMA-48, and those of xterm).
const (
	// The alternate screen, without a cursor and without line breaks in long lines.
	watchBegin = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	watchEnd   = "\x1b[?7h\x1b[?25h\x1b[?1049l"

	toTop       = "\x1b[H"
	clearToEOL  = "\x1b[K"
	clearToEnd  = "\x1b[J"
	watchFooter = "(every second; Ctrl-C ends)"
)

// watchStatus draws the status at the interval of the flags until ctx ends, on a screen of its own. At the
// end the terminal is as before, with the last status below. text is the first one.
func watchStatus(ctx context.Context, e *command.Env, f *statusFlags, text []byte) error {
	if _, err := e.Stdout.Write([]byte(watchBegin)); err != nil {
		return err
	}
	last, err := redraw(ctx, e, f, text)
	_, endErr := e.Stdout.Write(append([]byte(watchEnd), last...))
	if err != nil {
		return err
	}
	return endErr
}

// redraw draws until ctx ends, and returns what it has drawn last.
func redraw(ctx context.Context, e *command.Env, f *statusFlags, text []byte) ([]byte, error) {
	// The messages of fetch would be written over the screen.
	quiet := *e
	quiet.Stderr = new(bytes.Buffer)
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		if _, err := e.Stdout.Write(screen(text, rowsOf(e.Stdout))); err != nil {
			return text, err
		}
		select {
		case <-ctx.Done():
			return text, nil
		case <-tick.C:
		}
		// A gateway that does not respond may be starting again.
		next, err := f.fetchText(ctx, &quiet)
		switch {
		case ctx.Err() != nil:
			return text, nil
		case err != nil:
			next = fmt.Appendf(nil, "%s\n", output.Visible(err.Error()))
		}
		text = next
	}
}

// fetchText fetches and formats the status.
func (f *statusFlags) fetchText(ctx context.Context, e *command.Env) ([]byte, error) {
	fetched, err := f.fetch(ctx, e)
	if err != nil {
		return nil, err
	}
	return fetched.text(f)
}

// screen returns what draws a text over the previous one, on a screen with some rows. If it
// has too few, the last lines are left out.
func screen(text []byte, rows int) []byte {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	footer := watchFooter
	if room := max(rows-1, 1); len(lines) > room {
		footer = fmt.Sprintf("%s more %s", output.Plural(len(lines)-room, "line"), watchFooter)
		lines = lines[:room]
	}
	var b bytes.Buffer
	b.WriteString(toTop)
	for _, line := range append(lines, footer) {
		b.WriteString(line + clearToEOL + "\r\n")
	}
	// Without the last line break, which would scroll a full screen.
	b.Truncate(b.Len() - len("\r\n"))
	b.WriteString(clearToEnd)
	return b.Bytes()
}

// defaultRows is the number of rows of a terminal that does not tell it.
const defaultRows = 24

// rowsOf returns the number of rows of a terminal.
func rowsOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if _, rows, err := term.GetSize(int(f.Fd())); err == nil && rows > 0 {
			return rows
		}
	}
	return defaultRows
}
