// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// journalRoom is how much may wait for whoever reads standard error: a burst
	// of records, and not what a gateway says in a day.
	journalRoom = 256 << 10

	// journalEnd is how long the last records are waited for at the end.
	journalEnd = time.Second
)

// journal is standard error while a gateway serves. Whoever reads it may stop to
// read, such as a terminal that is held, or go away: a write to it then waits,
// or ends the process, and with it every call. So nobody writes there but one
// goroutine; the others leave their text, and where it finds no room it is
// counted and dropped.
type journal struct {
	to    io.Writer
	more  chan struct{} // capacity 1: there is something to write
	ended chan struct{} // closed when follow has returned

	mu      sync.Mutex
	waiting bytes.Buffer // whole records, at most journalRoom
	dropped int          // records since the last that found room
	closing bool         // nothing is to come any more
}

// newJournal returns a journal that writes to a writer. It must be closed.
func newJournal(to io.Writer) *journal {
	j := &journal{to: to, more: make(chan struct{}, 1), ended: make(chan struct{})}
	// Ends after close, when what was left is written. close waits for it, but
	// not for ever: a write that waits for a reader cannot be called back, and
	// ends with the process.
	go j.follow()
	return j
}

// Write leaves a text. It does not wait, and never fails: there is nobody left
// to be told.
func (j *journal) Write(text []byte) (int, error) {
	j.leave(text)
	j.wake()
	return len(text), nil
}

// leave puts a text where follow finds it, whole or not at all: half a record
// would be read as another.
func (j *journal) leave(text []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting.Len()+len(text) > journalRoom {
		j.dropped++
		return
	}
	j.tellDroppedLocked()
	j.waiting.Write(text)
}

// tellDroppedLocked says what is missing at the place where it is missing.
func (j *journal) tellDroppedLocked() {
	if j.dropped > 0 {
		fmt.Fprintf(&j.waiting, "signalbox: %s of the log dropped, because nobody read it\n", plural(j.dropped, "record"))
		j.dropped = 0
	}
}

// wake has follow look. Many words are one: it takes everything that waits.
func (j *journal) wake() {
	select {
	case j.more <- struct{}{}:
	default: // it is awake
	}
}

// take returns what waits, and whether more may come.
func (j *journal) take() (text []byte, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tellDroppedLocked() // nothing may come after it
	text = bytes.Clone(j.waiting.Bytes())
	j.waiting.Reset()
	return text, !j.closing
}

// follow writes what waits, until the journal is closed and nothing is left. It
// writes outside of the lock, so that only it can be made to wait.
func (j *journal) follow() {
	defer close(j.ended)
	for range j.more {
		text, more := j.take()
		_, _ = j.to.Write(text) // a log that cannot be written has nobody to complain to
		if !more {
			return
		}
	}
}

// close returns when all is written, or after journalEnd.
func (j *journal) close() {
	j.markClosing()
	j.wake()
	late := time.NewTimer(journalEnd)
	defer late.Stop()
	select {
	case <-j.ended:
	case <-late.C:
	}
}

// markClosing lets the next take be the last one.
func (j *journal) markClosing() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closing = true
}
