// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package process

import (
	"os/exec"
)

// guardian does nothing: there are no process groups.
type guardian struct{}

func (guardian) watch(int, func(*exec.Cmd) error) {}

func (guardian) forget(int) {}

func (guardian) stop() {}
