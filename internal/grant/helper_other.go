// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package grant

import "os/exec"

// killGroup does nothing: only the program itself is killed.
func killGroup(*exec.Cmd) {}
