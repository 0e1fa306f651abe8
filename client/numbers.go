// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/binary"
	"hash/maphash"
)

// numbers are the ids of the calls of one connection, in an order that nobody can guess:
// an answer that was made up for another call, and comes on a connection where the next
// one waits, names none. They are a permutation, so that no id comes twice, and of 31
// bits, because some servers read ids as 32 bits. All have ten digits.
type numbers struct{ seed maphash.Seed }

// halfID is the number of bits of each half of an id.
const halfID = 15

func newNumbers() *numbers { return &numbers{maphash.MakeSeed()} }

// firstID is the least of the ids.
const firstID = 1 << (2 * halfID)

// ID returns the id of the n-th call.
func (s *numbers) ID(n uint64) uint64 {
	l, r := n>>halfID&(1<<halfID-1), n&(1<<halfID-1)
	for round := range byte(4) {
		l, r = r, l^s.mix(round, r)
	}
	return firstID | l<<halfID | r
}

// Of returns which of the first 2^30 calls has the id, 0 where none can have it.
func (s *numbers) Of(id uint64) uint64 {
	if id < firstID || id >= 2*firstID {
		return 0
	}
	l, r := id>>halfID&(1<<halfID-1), id&(1<<halfID-1)
	for round := byte(4); round > 0; round-- {
		l, r = r^s.mix(round-1, l), l
	}
	return l<<halfID | r
}

// mix is the function of one round.
func (s *numbers) mix(round byte, half uint64) uint64 {
	var b [3]byte
	binary.LittleEndian.PutUint16(b[:], uint16(half))
	b[2] = round
	return maphash.Bytes(s.seed, b[:]) & (1<<halfID - 1)
}
