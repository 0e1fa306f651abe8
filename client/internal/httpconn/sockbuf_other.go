// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package httpconn

import (
	"syscall"
)

// growReceiveBuffer does nothing: the system chooses the buffer size.
func growReceiveBuffer(_, _ string, _ syscall.RawConn) error { return nil }
