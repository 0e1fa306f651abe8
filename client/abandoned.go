// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync/atomic"
	"time"
)

// abandonedTime is how long a server that was told so may go on with a call that
// was given up.
const abandonedTime = time.Minute

// abandoned remembers when a call was last given up on a connection that several
// clients share. Its server may still be at work on it, so that a message which
// names no call is not for the only one in outboundCall: it may be another client's.
// The zero value is ready.
type abandoned struct{ last atomic.Pointer[time.Time] }

func (a *abandoned) note() {
	now := time.Now()
	a.last.Store(&now)
}

func (a *abandoned) recently() bool {
	last := a.last.Load()
	return last != nil && time.Since(*last) < abandonedTime
}
