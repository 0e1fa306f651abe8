// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// An Arriving is a [StreamedResult]. The Handler offers it inside Serve, with Receive of
// its caller's [CallerExtension]. On the way to the client it passes the callers of other
// Handlers, which may register changes on it. The one that accepts it calls Flow.
//
// Apart from Stop, it must be used by one goroutine at a time.
type Arriving struct {
	// From is the revision of the server that sent the result.
	From Version

	arrival *Arrival
	head    *Result
	passage Passage
	stop    func()
	stopped atomic.Bool
	around  []func(taking bool)
	result  *Result
}

// NewArriving returns the result after a has read its head. stop makes reading the rest
// fail; it must not wait and may be called more than once.
func NewArriving(a *Arrival, from Version, stop func()) *Arriving {
	return &Arriving{From: from, arrival: a, head: a.Result(), stop: stop, passage: Passage{ID: a.ID(), Complete: true}}
}

// Head returns the members that have arrived completely. More may follow.
func (a *Arriving) Head() *Result { return a.head }

// Has reports whether the member has arrived at least in part.
func (a *Arriving) Has(f Field) bool {
	if a.head.Has(f) {
		return true
	}
	s := newScanner(a.head.Bytes(), Limits{})
	var seen names
	for i := s.first(s.begin()); i >= 0; i = s.next(i) {
		start := i
		if i = s.key(i); i < 0 {
			return false
		}
		if s.name(start, levelResult, &seen) == f && s.err == nil {
			return true
		}
		if i = s.value(i, 1); i < 0 {
			return false
		}
	}
	return false
}

// Prepend puts the member at the front of the result and omits its own occurrence, if
// any.
func (a *Arriving) Prepend(f Field, value []byte) {
	if len(a.passage.Front) > 0 {
		a.passage.Front = append(a.passage.Front, ',')
	}
	a.passage.Front = append(AppendString(a.passage.Front, f.Key()), ':')
	a.passage.Front = append(a.passage.Front, value...)
	a.Omit(f)
}

// PutText is Prepend with a string.
func (a *Arriving) PutText(f Field, s string) { a.Prepend(f, AppendString(nil, s)) }

// Omit omits members of the result and of its _meta.
func (a *Arriving) Omit(fields ...Field) { a.passage.Drop = append(a.passage.Drop, fields...) }

// Wrap replaces a member that is not an object by an object with the value as its
// member "result".
func (a *Arriving) Wrap(f Field) { a.passage.Wrap = f }

// Around registers a function that is called before (true) and after (false) each write
// to the client. The server is not read during a write, so this time must not count
// against the server.
func (a *Arriving) Around(f func(taking bool)) { a.around = append(a.around, f) }

// Stop ends the reading, so that Flow fails soon. It may be called by any goroutine at
// any time, and does not wait.
func (a *Arriving) Stop() {
	a.stopped.Store(true)
	a.stop()
}

// Longest returns an upper bound of the number of bytes that Flow writes, or a negative
// number if the server did not announce the length of its response.
func (a *Arriving) Longest() int64 {
	size := a.arrival.size
	if size < 0 {
		return -1
	}
	begins := len(a.arrival.data) - len(a.head.Bytes())
	size -= int64(begins + len("}")) // of the envelope, which ends after the result
	if n := len(a.passage.Front); n > 0 {
		size += int64(n + len(","))
	}
	if a.passage.Wrap != FieldNone {
		size += int64(len(wrapping) + len("}"))
	}
	return size
}

// Flow writes the result to w as [Arrival.Flow] does. The error wraps [ErrNotTaken] if
// w failed or Stop was called.
func (a *Arriving) Flow(w io.Writer) error {
	res, err := a.arrival.Flow(clientWriter{w, a.around}, a.passage)
	switch {
	case err != nil && a.stopped.Load() && !errors.Is(err, ErrNotTaken):
		return fmt.Errorf("%w: %w", ErrNotTaken, err)
	case err != nil:
		return err
	}
	res.delivered = true
	a.result = res
	return nil
}

// Result returns what is known of a result that was delivered completely: its isError.
// The Handler returns it.
func (a *Arriving) Result() *Result { return a.result }

// ErrNotTaken is wrapped by the error of an Arriving that ended early because of its
// client.
var ErrNotTaken = errors.New("the client stopped reading the result")

// clientWriter writes to the client and calls the functions registered by Around.
type clientWriter struct {
	w      io.Writer
	around []func(taking bool)
}

func (t clientWriter) Write(p []byte) (int, error) {
	for _, f := range t.around {
		f(true)
	}
	n, err := t.w.Write(p)
	for _, f := range t.around {
		f(false)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrNotTaken, err)
	}
	return n, err
}
