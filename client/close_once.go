// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import "sync"

// closeOnce runs a close function once. Unlike sync.Once it holds no lock while the
// function runs. The zero value is ready.
type closeOnce struct {
	mu   sync.Mutex
	done chan struct{} // closed when f has returned; nil until once is called
}

// once calls f on the first call. Every call returns after f has returned.
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
