// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package hangup

import "syscall"

const isKnown = false

func hasHungUp(syscall.Conn) bool { return false }
