// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "context"

// Memory bounds the bytes of answers that are held for a client, from when they are
// received until the client has read them.
type Memory interface {
	// Reserve reserves memory for an answer of the given total size. It is called
	// before that much is held, and may be called again with more. It waits while
	// clients read other answers. If there is no memory in time, or when ctx ends, it
	// returns the error with which the request ends. The error is ErrRequestEnded if
	// the request has ended.
	//
	// The memory is released at the end of the request. Reserve may be called
	// concurrently.
	Reserve(ctx context.Context, bytes int) error
}

// ReserveFrom is the size above which an answer needs a reservation. Smaller ones are
// bounded by the limit of requests in flight.
const ReserveFrom = 64 << 10

// Reserve reserves memory for an answer to the request. It returns nil if the request
// has no bound, and for a small answer.
func (r *Request) Reserve(ctx context.Context, bytes int) error {
	if r == nil || r.Memory == nil || bytes <= ReserveFrom {
		return nil
	}
	return r.Memory.Reserve(ctx, bytes)
}
