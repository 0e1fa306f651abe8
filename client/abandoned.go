// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync/atomic"
	"time"
)

// abandonedTime is how long a server may continue with a call after it was notified
// that the call is cancelled.
const abandonedTime = time.Minute

// abandoned records when a call was last cancelled on a connection that several clients
// share. The server may still be working on that call. So a message that names no call
// is not necessarily for the only open one. The zero value is ready.
type abandoned struct{ last atomic.Pointer[time.Time] }

func (a *abandoned) note() {
	now := time.Now()
	a.last.Store(&now)
}

func (a *abandoned) recently() bool {
	last := a.last.Load()
	return last != nil && time.Since(*last) < abandonedTime
}
