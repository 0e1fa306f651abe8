// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Arriving is a result of which a Handler has the beginning, while the rest is still on
// its way. The Handler offers it to its caller with [Receive] from inside of Serve. On
// the way there it passes other Handlers' callers, which may say what is to be changed
// of it, and whoever takes it calls Flow.
//
// It is for one goroutine at a time, but for Stop.
type Arriving struct {
	// From is the revision that its server speaks.
	From Version

	arrival *Arrival
	shown   *Result
	passage Passage
	stop    func()
	stopped atomic.Bool
	around  []func(taking bool)
	gone    *Result
}

// NewArriving returns the result that an Arrival has shown the beginning of. stop ends
// the reading of it, which then fails; it must not wait, and may be called more than
// once.
func NewArriving(a *Arrival, from Version, stop func()) *Arriving {
	return &Arriving{From: from, arrival: a, shown: a.Result(), stop: stop, passage: Passage{ID: a.ID(), Complete: true}}
}

// Head returns the members that are there already, each as a whole. More may follow,
// so that one which is not there may come yet.
func (a *Arriving) Head() *Result { return a.shown }

// Has reports whether the member has begun, at least.
func (a *Arriving) Has(f Field) bool {
	if a.shown.Has(f) {
		return true
	}
	s := newScanner(a.shown.Bytes(), Limits{})
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

// Prepend has the member stand at the front of the result, instead of where it stands by
// itself, if it does.
func (a *Arriving) Prepend(f Field, value []byte) {
	if len(a.passage.Front) > 0 {
		a.passage.Front = append(a.passage.Front, ',')
	}
	a.passage.Front = append(AppendString(a.passage.Front, f.Key()), ':')
	a.passage.Front = append(a.passage.Front, value...)
	a.Omit(f)
}

// PutText is Put for a string.
func (a *Arriving) PutText(f Field, s string) { a.Prepend(f, AppendString(nil, s)) }

// Omit has members left out, wherever they stand.
func (a *Arriving) Omit(fields ...Field) { a.passage.Drop = append(a.passage.Drop, fields...) }

// Wrap has a member that is no object be the member "result" of one.
func (a *Arriving) Wrap(f Field) { a.passage.Wrap = f }

// Around has f called before and after each piece is given to the client, while which
// nothing is read: how long that takes says nothing of the server.
func (a *Arriving) Around(f func(taking bool)) { a.around = append(a.around, f) }

// Stop ends the reading: Flow fails soon. It may be called by any goroutine at any time,
// and does not wait.
func (a *Arriving) Stop() {
	a.stopped.Store(true)
	a.stop()
}

// Longest returns how many bytes Flow writes at most, or a negative number where the
// server did not announce how long its answer is.
func (a *Arriving) Longest() int64 {
	size := a.arrival.size
	if size < 0 {
		return -1
	}
	begins := len(a.arrival.data) - len(a.shown.Bytes())
	size -= int64(begins + len("}")) // of the envelope, which ends behind the result
	if n := len(a.passage.Front); n > 0 {
		size += int64(n + len(","))
	}
	if a.passage.Wrap != FieldNone {
		size += int64(len(wrapping) + len("}"))
	}
	return size
}

// Flow writes the result to w as [Arrival.Flow] does. Where w has failed, or Stop was
// called, [ErrNotTaken] is in the error.
func (a *Arriving) Flow(w io.Writer) error {
	res, err := a.arrival.Flow(taker{w, a.around}, a.passage)
	switch {
	case err != nil && a.stopped.Load() && !errors.Is(err, ErrNotTaken):
		return fmt.Errorf("%w: %w", ErrNotTaken, err)
	case err != nil:
		return err
	}
	res.delivered = true
	a.gone = res
	return nil
}

// Result returns what is known of a result that has been taken by its caller as a
// whole: its isError. It is what the Handler returns.
func (a *Arriving) Result() *Result { return a.gone }

// ErrNotTaken is in the error of an Arriving that broke off because its client did not
// take it.
var ErrNotTaken = errors.New("the client did not take it")

// taker writes pieces, and tells of it.
type taker struct {
	w      io.Writer
	around []func(taking bool)
}

func (t taker) Write(p []byte) (int, error) {
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

// Receiver is an optional interface of a [Caller] that can give its client a result
// while it arrives. A Caller that wraps another is one only if the Handlers behind it
// pass on each result as it is, or say on the Arriving what they change.
type Receiver interface {
	// Receive gives the client the result, and returns when it has all of it that there
	// is, or never will: the client knows by its connection that it was cut. The Handler
	// then returns the Arriving's Result, or an error. Where Receive returns false it has
	// done nothing, and the Handler is to read the whole and to return it.
	Receive(ctx context.Context, a *Arriving) (taken bool, err error)
}

// Receive offers a result to a caller, if that is a [Receiver].
func Receive(ctx context.Context, caller Caller, a *Arriving) (taken bool, err error) {
	if r, ok := caller.(Receiver); ok {
		return r.Receive(ctx, a)
	}
	return false, nil
}
