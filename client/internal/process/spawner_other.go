// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "os/exec"

// spawner starts processes.
type spawner struct{}

func (spawner) start(cmd *exec.Cmd) error { return cmd.Start() }

func (spawner) stop() {}
