// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"math/rand/v2"
	"testing"
)

// IDs are a permutation of the first 2^30 calls, and have ten digits and 31 bits.
func TestNumbersArePermuted(t *testing.T) {
	s := NewNumbers()
	seen := map[uint64]bool{}
	for i := range uint64(100_000) {
		for _, n := range []uint64{i, rand.Uint64N(1 << 30)} {
			id := s.ID(n)
			if back := s.Of(id); back != n || id < 1<<30 || id >= 1<<31 {
				t.Fatalf("call %d has the id %d, which is that of call %d", n, id, back)
			}
		}
		id := s.ID(i)
		if seen[id] {
			t.Fatalf("the id %d came twice", id)
		}
		seen[id] = true
	}
	for _, id := range []uint64{0, 1, 1<<30 - 1, 1 << 31, 1 << 60} {
		if n := s.Of(id); n != 0 {
			t.Errorf("%d is the id of call %d", id, n)
		}
	}
}

// One id reveals neither the next one nor those of another connection.
func TestIDsAreUnpredictable(t *testing.T) {
	const calls = 2000
	one, other := NewNumbers(), NewNumbers()
	steps, same := map[int64]bool{}, 0
	for n := range uint64(calls) {
		if one.ID(n) == other.ID(n) {
			same++
		}
		steps[int64(one.ID(n+1))-int64(one.ID(n))] = true
	}
	if len(steps) < calls-10 || same > 2 {
		t.Errorf("%d different steps in %d calls, %d ids of both connections at the same place", len(steps), calls, same)
	}
}

func BenchmarkNumbers(b *testing.B) {
	s := NewNumbers()
	for n := uint64(0); b.Loop(); n++ {
		s.ID(n)
	}
}
