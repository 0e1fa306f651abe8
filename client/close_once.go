// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import "sync"

// closeOnce is the end of something, which whoever comes first brings about. Not a
// sync.Once, whose lock would be held meanwhile. The zero value is ready.
type closeOnce struct {
	mu   sync.Mutex
	done chan struct{} // closed when it has ended; nil until somebody begins
}

// once calls f where nobody has, and returns when f has returned, whoever called it.
func (e *closeOnce) once(f func()) {
	first, over := e.begin()
	if !first {
		<-over
		return
	}
	defer close(over)
	f()
}

func (e *closeOnce) begin() (first bool, over chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first = e.done == nil
	if first {
		e.done = make(chan struct{})
	}
	return first, e.done
}
