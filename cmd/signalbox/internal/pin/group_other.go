// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package pin

import (
	"os/exec"
)

// endAsGroup does nothing: there are no process groups.
func endAsGroup(*exec.Cmd) {}
