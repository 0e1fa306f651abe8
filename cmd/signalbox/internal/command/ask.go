// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

// ReadLine reads up to a line break, one byte at a time so that nothing after it is
// consumed. If ctx ends first, the read continues in the background until there is a
// line, as a read from a terminal cannot be canceled.
func ReadLine(ctx context.Context, r io.Reader) (string, error) {
	line, err := readOrEnd(ctx, func() (string, error) {
		var b strings.Builder
		// One byte at a time: a larger read would consume the input of the next question,
		// or of the next program of a script.
		buf := make([]byte, 1)
		for {
			n, err := r.Read(buf)
			if n == 1 && buf[0] == '\n' {
				return b.String(), nil
			}
			b.Write(buf[:n])
			if err != nil {
				return b.String(), err
			}
		}
	})
	return strings.TrimSuffix(line, "\r"), err
}

// readOrEnd returns what read returns, or the error of ctx if that ends first.
func readOrEnd(ctx context.Context, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	// Ends with the line, the input or the process. After ctx nothing waits for it.
	go func() {
		text, err := read()
		done <- answer{text, err}
	}()
	select {
	case a := <-done:
		return a.text, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Confirm asks a question. Without a terminal to ask on, the answer is no, with an error.
func (e *Env) Confirm(ctx context.Context, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if !e.Terminal(e.Stdin) {
		return false, errors.New("nothing was written: standard input is not a terminal (add --yes to write)")
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	fmt.Fprint(e.Stderr, output.VisibleLine(question)+" [y/N] ")
	answer, err := ReadLine(ctx, e.Stdin)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return true, nil
	}
	return false, e.PrintText(e.Stdout, "nothing was written\n")
}

// ReadHidden reads a line from a terminal without an echo. As with ReadLine, the read
// continues in the background if ctx ends first; the terminal is as before then.
func ReadHidden(ctx context.Context, r io.Reader) (string, error) {
	file, ok := r.(*os.File)
	if !ok {
		return ReadLine(ctx, r)
	}
	fd := int(file.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	text, err := readOrEnd(ctx, func() (string, error) {
		text, err := term.ReadPassword(fd)
		return string(text), err
	})
	if ctx.Err() != nil {
		err = errors.Join(err, term.Restore(fd, before))
	}
	return text, err
}
