// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "context"

// Memory bounds the bytes of answers that are held for a client, from when they are
// received until the client has read them.
type Memory interface {
	// Reserve makes room for an answer of so many bytes, in all. It is called before as
	// much is held, and may be called again with more. It waits for room while clients
	// read other answers. Where there is none in time, or when ctx ends, it returns the
	// error that the request ends with: its answer cannot be held. It is ErrRequestEnded
	// where the request has ended.
	//
	// The room is given back with the end of the request. Reserve may be called
	// concurrently.
	Reserve(ctx context.Context, bytes int) error
}

// ReserveFrom is the size from which an answer needs a reservation. Smaller ones are
// bounded by how many requests may be in flight.
const ReserveFrom = 64 << 10

// Reserve makes room for an answer of so many bytes to the request. It returns nil where
// the request has no bound, and for a small answer.
func (r *Request) Reserve(ctx context.Context, bytes int) error {
	if r == nil || r.Memory == nil || bytes <= ReserveFrom {
		return nil
	}
	return r.Memory.Reserve(ctx, bytes)
}
