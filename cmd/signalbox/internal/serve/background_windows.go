// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"syscall"
)

// detachedProcess is DETACHED_PROCESS of the Windows API: a process without a console.
const detachedProcess = 0x8

// detached returns the attributes of a process without the console of this one, so that
// its events do not reach it. A job that ends with the client ends it nevertheless; the
// other clients then start another.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}
