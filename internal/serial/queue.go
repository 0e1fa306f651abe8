// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serial passes values to a slow receiver without making the sender wait.
package serial

import (
	"context"
	"sync"
)

// Queue holds values for a receiver. It has goroutines only while it is not empty. With
// one worker, the values are received in order. Its methods may be called concurrently.
// The fields must be set before the first Put.
type Queue[T any] struct {
	Max        int  // values that wait; at least 1
	Workers    int  // goroutines that receive at a time; 0 means 1
	DropOldest bool // what Put drops if the queue is full: the oldest value, or the new one

	mu      sync.Mutex
	values  []T
	workers int
	dropped uint64
}

// Put queues a value. It does not wait. If a goroutine is needed, Put calls start, which
// starts one that calls receive with the context of its owner, and reports false if the
// owner has ended. dropped is the number of values dropped so far if Put has dropped one,
// and otherwise 0.
func (q *Queue[T]) Put(v T, start func(next func(context.Context) (T, bool)) bool) (dropped uint64) {
	needed, dropped := q.add(v)
	if needed && !start(q.next) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.workers--
	}
	return dropped
}

func (q *Queue[T]) add(v T) (worker bool, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.values) >= q.Max {
		q.dropped++
		dropped = q.dropped
		if !q.DropOldest {
			return false, dropped
		}
		q.values = q.values[1:]
	}
	q.values = append(q.values, v)
	if q.workers >= max(1, q.Workers) {
		return false, dropped
	}
	q.workers++
	return true, dropped
}

// next returns the next value. It reports false if there is none or ctx has ended; the
// goroutine must end then.
func (q *Queue[T]) next(ctx context.Context) (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.values) == 0 || ctx.Err() != nil {
		q.workers--
		q.values = nil
		return v, false
	}
	v, q.values = q.values[0], q.values[1:]
	return v, true
}
