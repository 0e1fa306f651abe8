// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble counts the goroutines of a testing/synctest bubble, for tests.
package bubble

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// Goroutines returns the number of goroutines in the caller's bubble after
// synctest.Wait. Unlike [runtime.NumGoroutine] it does not count goroutines that have
// just ended or that belong to other tests.
func Goroutines(tb testing.TB) int {
	tb.Helper()
	synctest.Wait()
	own := make([]byte, 1<<10)
	header, _, _ := bytes.Cut(own[:runtime.Stack(own, false)], []byte("\n"))
	_, bubble, ok := bytes.Cut(header, []byte("synctest bubble "))
	if !ok {
		tb.Fatalf("%s: not in a bubble", header)
	}
	all := make([]byte, 4<<20)
	all = all[:runtime.Stack(all, true)]
	return bytes.Count(all, slices.Concat([]byte("synctest bubble "), bubble, []byte("\n")))
}
