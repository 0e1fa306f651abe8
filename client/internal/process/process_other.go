// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package process

import (
	"io"
	"os"
	"os/exec"
)

// ownGroup does nothing: a child ends with its input, or is killed.
func ownGroup(*exec.Cmd) {}

// terminateGroup does nothing: a process cannot be asked to terminate here.
func terminateGroup(int) {}

// killGroup kills the child.
func killGroup(pid int) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return // it has ended
	}
	p.Kill()
}

// groupRuns reports false: there are no groups.
func groupRuns(int) bool { return false }

// readBuffered reports io.EOF: pipes have no deadlines here, after which it would be
// needed.
func readBuffered(*os.File, []byte) (int, error) { return 0, io.EOF }

// guardian does nothing: there are no process groups.
type guardian struct{}

func (guardian) watch(int, func(*exec.Cmd) error) {}

func (guardian) forget(int) {}

func (guardian) stop() {}
