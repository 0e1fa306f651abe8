// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package process

import "os/exec"

// quoteForBatch does nothing: there are no batch files.
func quoteForBatch(*exec.Cmd) {}
