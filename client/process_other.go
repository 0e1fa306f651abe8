// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package client

import (
	"io"
	"os"
	"os/exec"
)

// ownGroup does nothing: a child ends when its input does, or is killed.
func ownGroup(*exec.Cmd) {}

// terminateGroup does nothing: there is no way to ask.
func terminateGroup(int) {}

// killGroup ends the child.
func killGroup(pid int) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return // it is gone already
	}
	p.Kill()
}

// spawner starts processes.
type spawner struct{}

func (spawner) start(cmd *exec.Cmd) error { return cmd.Start() }

func (spawner) stop() {}

// readBuffered is for files that have deadlines, which pipes do not have here.
func readBuffered(*os.File, []byte) (int, error) { return 0, io.EOF }
