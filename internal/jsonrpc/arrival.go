// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"io"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// An Arrival reads one response while it is still arriving, as strictly as [mcp.Parse].
// Begin returns a short response whole. Of a longer one, Begin reads the head, after
// which either Gather must be called, or Flow of an [Arriving] made from it:
//
//	whole, err := a.Begin()
//	switch {
//	case err != nil || whole != nil: // the end
//	case a.Head() == nil:            // the head does not show a result
//		whole, err = a.Gather()
//	default:
//		err = NewArriving(a, from, stop).Flow(w)
//	}
//
// An Arrival is for one goroutine. It does not close its reader and need not be closed.
type Arrival struct {
	text jsonscan.Arrival
}

// NewArrival returns an Arrival that reads one response from r up to the end of r. size
// is the announced length, or negative; it is a hint only. most is the maximal length
// of the response in bytes.
func NewArrival(r io.Reader, size int64, lim mcp.Limits, most int) Arrival {
	return Arrival{text: jsonscan.NewArrival(r, size, jsonscan.Limits(lim), most)}
}

// Begin reads until the message ends and returns its text, or until a window of it (63
// KiB) has been read and returns nil. It fails with the unmodified error of the reader,
// or with a [*mcp.ParseError] if the message is too long.
//
// The text belongs to the caller and is not yet parsed.
func (a *Arrival) Begin() (whole []byte, err error) {
	whole, err = a.text.Begin()
	return whole, parseError(err)
}

// Gather reads the rest and returns the whole text, as Begin would.
func (a *Arrival) Gather() ([]byte, error) {
	whole, err := a.text.Gather()
	return whole, parseError(err)
}

// ID returns the id of the response, as far as Begin has read it, or the zero ID: the
// id may follow the result.
func (a *Arrival) ID() mcp.ID {
	token := a.text.ID()
	if len(token) == 0 {
		return mcp.ID{}
	}
	return newID(token)
}

// Head returns the members of the result that are complete in the head that Begin has
// read. It returns nil if the head does not show that the message is a result, or if a
// member that JSON-RPC does not define precedes the result. It is valid until the rest
// is read.
func (a *Arrival) Head() *Head { return (*Head)(a.text.Result()) }

// A Head is the beginning of a result: the members that have arrived completely. More
// may follow.
type Head jsonscan.Object

func (h *Head) scanned() *jsonscan.Object { return (*jsonscan.Object)(h) }

// Has reports whether the member has arrived completely.
func (h *Head) Has(f mcp.Field) bool { return h.scanned().Has(jsonscan.Field(f)) }

// Type returns the resultType, as [mcp.Result.Type] does. If it has not arrived, the
// result counts as complete.
func (h *Head) Type() string { return jsonscan.ResultType(h.scanned().Raw(jsonscan.FieldResultType)) }
