// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proc

import "os/exec"

// tie does nothing on this system.
func tie(*exec.Cmd) {}
