// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// An Arriving is an [mcp.StreamedResult]. The Handler offers it inside Serve, with Receive
// of its caller's [mcp.CallerExtension]. On the way to the client it passes the callers of
// other Handlers, which may register changes on it. The one that accepts it calls Flow.
//
// Apart from Stop, it must be used by one goroutine at a time.
type Arriving struct {
	// From is the revision of the server that sent the result.
	From mcp.Version

	arrival *Arrival
	head    *Head
	passage jsonscan.Passage
	stop    func()
	stopped atomic.Bool
	pausers []mcp.Pauser
	result  mcp.Result
	to      io.Writer // of Flow

	// Memory for what most results need of the slices above.
	idRoom    [24]byte
	frontRoom [64]byte
	dropRoom  [4]jsonscan.Field
	pauseRoom [1]mcp.Pauser
	textRoom  [len(`{"isError":false}`)]byte // of result
}

// NewArriving returns the result after a has read its head. stop makes reading the rest
// fail; it must not wait and may be called more than once.
func NewArriving(a *Arrival, from mcp.Version, stop func()) *Arriving {
	r := &Arriving{From: from, arrival: a, head: a.Head(), stop: stop}
	r.pausers = r.pauseRoom[:0]
	r.passage = jsonscan.Passage{
		ID: append(r.idRoom[:0], a.text.ID()...), Front: r.frontRoom[:0], Drop: r.dropRoom[:0], Complete: true,
	}
	return r
}

// Head returns the members that have arrived completely. More may follow.
func (a *Arriving) Head() *Head { return a.head }

// Has reports whether the member has arrived at least in part.
func (a *Arriving) Has(f mcp.Field) bool {
	return a.arrival.text.Has(jsonscan.Field(f))
}

// Prepend puts the member at the front of the result and omits its own occurrence, if
// any.
func (a *Arriving) Prepend(f mcp.Field, value []byte) {
	a.beginMember(f)
	a.passage.Front = append(a.passage.Front, value...)
}

// PutText is Prepend with a string.
func (a *Arriving) PutText(f mcp.Field, s string) {
	a.beginMember(f)
	a.passage.Front = jsonscan.AppendString(a.passage.Front, s)
}

// beginMember begins a member at the front of the result.
func (a *Arriving) beginMember(f mcp.Field) {
	a.Omit(f)
	front := a.passage.Front
	if len(front) > 0 {
		front = append(front, ',')
	}
	a.passage.Front = append(jsonscan.AppendString(front, f.Key()), ':')
}

// Omit omits members of the result and of its _meta.
func (a *Arriving) Omit(fields ...mcp.Field) {
	for _, f := range fields {
		a.passage.Drop = append(a.passage.Drop, jsonscan.Field(f))
	}
}

// Wrap replaces a member that is not an object by an object with the value as its
// member "result".
func (a *Arriving) Wrap(f mcp.Field) { a.passage.Wrap = jsonscan.Field(f) }

// PauseWriting registers p, which is paused during each write to the client. The server is
// not read during a write, so this time must not count against the server.
func (a *Arriving) PauseWriting(p mcp.Pauser) { a.pausers = append(a.pausers, p) }

// Stop ends the reading, so that Flow fails soon. It may be called by any goroutine at
// any time, and does not wait.
func (a *Arriving) Stop() {
	a.stopped.Store(true)
	a.stop()
}

// Longest returns an upper bound of the number of bytes that Flow writes, or a negative
// number if the server did not announce the length of its response.
func (a *Arriving) Longest() int64 { return a.arrival.text.Longest(a.passage) }

// Flow writes the JSON text of the result to w as it arrives, in pieces of at most a
// window; then the members after the result that JSON-RPC does not define, each after a
// comma. Only checked text reaches w, and checked text is written before Flow waits for
// more. Flow ends at the first error, which is the reader's, or a [*mcp.ParseError], or
// wraps [ErrNotTaken] if w failed or Stop was called. Text written before an error must
// not be used as a result: it may even be complete, in an invalid envelope.
func (a *Arriving) Flow(w io.Writer) error {
	a.to = w
	isError, err := a.arrival.text.Flow((*clientWriter)(a), a.passage)
	err = parseError(err)
	switch {
	case err != nil && a.stopped.Load() && !errors.Is(err, ErrNotTaken):
		return fmt.Errorf("%w: %w", ErrNotTaken, err)
	case err != nil:
		return err
	}
	return a.deliver(isError)
}

// deliver makes the result that the Handler returns.
func (a *Arriving) deliver(isError string) error {
	text := append(a.textRoom[:0], '{')
	if isError != "" {
		text = append(append(text, `"isError":`...), isError...)
	}
	obj, err := mcp.ParseObject(append(text, '}'))
	if err != nil {
		return err
	}
	a.result = mcp.Result{Object: obj, Delivered: true}
	return nil
}

// Result returns what is known of a result that was delivered completely: its isError.
// The Handler returns it. It is nil if the result was not delivered.
func (a *Arriving) Result() *mcp.Result {
	if !a.result.Delivered {
		return nil
	}
	return &a.result
}

// ErrNotTaken is wrapped by the error of an Arriving that ended early because of its
// client.
var ErrNotTaken = errors.New("the client stopped reading the result")

// clientWriter writes to the client and pauses what is registered by PauseWriting.
type clientWriter Arriving

func (t *clientWriter) Write(data []byte) (int, error) {
	for _, p := range t.pausers {
		p.Pause(true)
	}
	n, err := t.to.Write(data)
	for _, p := range t.pausers {
		p.Pause(false)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrNotTaken, err)
	}
	return n, err
}
