// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package yardstick

import (
	"errors"
	"io"
	"os/exec"
)

// Relay starts a program and passes on what comes for it, and what it says, until both
// have ended. It is the least that can stand between a client and a server on pipes: it
// copies what there is as soon as it is there, and does not look at it.
func Relay(cmd *exec.Cmd, in io.Reader, out io.Writer) error {
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { // ends with the input
		err := copyPieces(to, in)
		sent <- errors.Join(err, to.Close())
	}()
	err = copyPieces(out, from)
	return errors.Join(err, <-sent, cmd.Wait())
}

// copyPieces copies what there is, piece by piece.
func copyPieces(to io.Writer, from io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
