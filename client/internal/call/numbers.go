// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"encoding/binary"
	"hash/maphash"
)

// Numbers are the request ids of one connection, in an unpredictable order, so that a
// forged answer matches no pending call. They are a permutation, so that no id is used
// twice. They have 31 bits, because some servers parse ids as 32-bit integers, and ten
// digits.
type Numbers struct{ seed maphash.Seed }

// halfID is the number of bits in each half of an id.
const halfID = 15

func NewNumbers() *Numbers { return &Numbers{maphash.MakeSeed()} }

// firstID is the smallest id.
const firstID = 1 << (2 * halfID)

// ID returns the id of the n-th call.
func (s *Numbers) ID(n uint64) uint64 {
	l, r := n>>halfID&(1<<halfID-1), n&(1<<halfID-1)
	for round := range byte(4) {
		l, r = r, l^s.mix(round, r)
	}
	return firstID | l<<halfID | r
}

// Of returns the number of the call with the id, among the first 2^30 calls; 0 if none
// can have it.
func (s *Numbers) Of(id uint64) uint64 {
	if id < firstID || id >= 2*firstID {
		return 0
	}
	l, r := id>>halfID&(1<<halfID-1), id&(1<<halfID-1)
	for round := byte(4); round > 0; round-- {
		l, r = r^s.mix(round-1, l), l
	}
	return l<<halfID | r
}

// mix is the round function of the Feistel network.
func (s *Numbers) mix(round byte, half uint64) uint64 {
	var b [3]byte
	binary.LittleEndian.PutUint16(b[:], uint16(half))
	b[2] = round
	return maphash.Bytes(s.seed, b[:]) & (1<<halfID - 1)
}
