// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wait

import (
	"os"
	"time"
)

const canWait = false

func awaitInput(uintptr, time.Duration) bool { return false }

// Pipe is [os.Pipe].
func Pipe() (r, w *os.File, err error) { return os.Pipe() }
