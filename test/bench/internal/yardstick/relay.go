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

// copyPieces copies what there is, piece by piece, and by no way that the system has
// between files: a program that looks at what it passes on has none of these.
func copyPieces(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
	return err
}
