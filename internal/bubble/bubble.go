// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble tells tests what is left in their bubble of testing/synctest.
package bubble

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// Goroutines is how many goroutines the caller's bubble has, when all that can happen has
// happened. What [runtime.NumGoroutine] returns has one in it that ended a moment ago,
// and those of nobody's test.
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
