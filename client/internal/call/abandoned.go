// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"sync/atomic"
	"time"
)

// AbandonedTime is how long a server may continue with a call after it was notified
// that the call is cancelled.
const AbandonedTime = time.Minute

// Abandoned records when a call was last cancelled on a connection that several clients
// share. The server may still be working on that call. So a message that names no call
// is not necessarily for the only open one. The zero value is ready.
type Abandoned struct{ last atomic.Pointer[time.Time] }

func (a *Abandoned) Note() {
	now := time.Now()
	a.last.Store(&now)
}

func (a *Abandoned) Recently() bool {
	last := a.last.Load()
	return last != nil && time.Since(*last) < AbandonedTime
}
