// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// half is one direction of a connection: a bounded buffer. A blocked call waits on changed,
// which is closed and replaced at each change. Unlike a condition variable, a channel can
// be waited on together with a deadline, and testing/synctest knows its waiters.
type half struct {
	size            int
	readBy, writeBy deadline

	mu       sync.Mutex
	buf      []byte
	readErr  error // what read returns once buf is empty
	writeErr error // what write returns at once
	changed  chan struct{}
}

func newHalf(size int) *half {
	return &half{size: size, changed: make(chan struct{})}
}

func (h *half) read(p []byte) (int, error) {
	for {
		n, changed, err := h.tryRead(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := h.readBy.wait(changed); err != nil {
			return 0, err
		}
	}
}

// tryRead returns the bytes in the buffer, or the channel to wait on. A deadline that has
// passed takes precedence over bytes in the buffer, as on a socket: net/http ends a read
// that way.
func (h *half) tryRead(p []byte) (n int, changed <-chan struct{}, err error) {
	if h.readBy.passed() {
		return 0, nil, os.ErrDeadlineExceeded
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.buf) == 0 {
		return 0, h.changed, h.readErr
	}
	n = copy(p, h.buf)
	if h.buf = h.buf[n:]; len(h.buf) == 0 {
		h.buf = nil // an idle connection holds no memory
	}
	h.announceLocked()
	return n, nil, nil
}

func (h *half) isQuiet() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.buf) == 0 && h.readErr == nil
}

func (h *half) write(p []byte) (int, error) {
	written := 0
	for {
		n, changed, err := h.tryWrite(p[written:])
		written += n
		if written == len(p) || err != nil {
			return written, err
		}
		if err := h.writeBy.wait(changed); err != nil {
			return written, err
		}
	}
}

// tryWrite writes as much as fits, and returns the channel to wait on for the rest. A
// closed direction takes precedence over a deadline, because it is final.
func (h *half) tryWrite(p []byte) (n int, changed <-chan struct{}, err error) {
	late := h.writeBy.passed()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.writeErr != nil:
		return 0, nil, h.writeErr
	case late:
		return 0, nil, os.ErrDeadlineExceeded
	}
	n = min(len(p), h.size-len(h.buf))
	if n > 0 {
		h.buf = append(h.buf, p[:n]...)
		h.announceLocked()
	}
	return n, h.changed, nil
}

// shut closes the direction. The contents of the buffer can still be read, unless the
// reader closes. The first error of each side is kept.
func (h *half) shut(readErr, writeErr error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readErr == nil {
		h.readErr = readErr
	}
	if h.writeErr == nil {
		h.writeErr = writeErr
	}
	h.announceLocked()
}

// leave closes the direction for the reader. Read returns net.ErrClosed from now on, and
// the contents of the buffer are lost.
func (h *half) leave() {
	h.shut(net.ErrClosed, io.ErrClosedPipe)
	h.empty()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readErr = net.ErrClosed
}

// drop closes the direction and empties it. A side that was closed before keeps its error.
func (h *half) drop(err error) {
	h.shut(err, err)
	h.empty()
}

// empty discards the contents of the buffer.
func (h *half) empty() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = nil
}

// announceLocked wakes all waiters, which check again.
func (h *half) announceLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// deadline is a point in time that can be moved while a goroutine waits for it.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	moved chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
}

// passed is called before each attempt, because a deadline in the past ends even calls that
// need not block.
func (d *deadline) passed() bool {
	at, _ := d.get()
	return !at.IsZero() && !time.Now().Before(at)
}

func (d *deadline) get() (time.Time, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.moved == nil {
		d.moved = make(chan struct{})
	}
	return d.at, d.moved
}

// wait returns nil when changed is closed or the deadline was moved, and an
// error when it has passed.
func (d *deadline) wait(changed <-chan struct{}) error {
	at, moved := d.get()
	var expired <-chan time.Time
	if !at.IsZero() {
		left := time.Until(at)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		t := time.NewTimer(left)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-changed:
		return nil
	case <-moved:
		return nil
	case <-expired:
		return os.ErrDeadlineExceeded
	}
}
