// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package client_test

import "os/exec"

// ownSession does nothing: the system has no process sessions.
func ownSession(*exec.Cmd) {}
