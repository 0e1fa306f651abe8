// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// Lines of all lengths leave a backlog in the order in which they came, and what was
// written before is not in it any more, although its room is used again.
func TestBacklogKeepsTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var now, written backlog
	for range 500 {
		var want []byte
		for i := range r.IntN(30) {
			size := [...]int{1, 50, 500, shortLine - 1, shortLine, shortLine + 1, 3 * shortLine}[r.IntN(7)]
			msg := strings.Repeat(string(rune('a'+i%26)), size)
			now.add([]byte(msg))
			want = append(append(want, msg...), '\n')
		}
		if now.size != len(want) {
			t.Fatalf("the size is %d, want %d", now.size, len(want))
		}
		if got := bytes.Join(now.parts, nil); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes wait that are not the %d that came", len(got), len(want))
		}
		written.reuse()
		now, written = written, now
	}
}

// A short line takes no new memory, and a long one is not copied; and what a backlog
// keeps for later is little.
func TestBacklogTakesLittleMemory(t *testing.T) {
	short, long := []byte(`{"short":true}`), make([]byte, 1<<20, 1<<20+1)
	var b backlog
	b.add(short)
	if n := testing.AllocsPerRun(100, func() {
		b.reuse()
		for range 10 {
			b.add(short)
		}
	}); n > 0 {
		t.Errorf("ten short lines take %v pieces of memory, want none", n)
	}
	if n := testing.AllocsPerRun(10, func() {
		b.reuse()
		b.add(short)
		b.add(long)
	}); n > 0 || &b.parts[1][0] != &long[0] {
		t.Errorf("a long line takes %v pieces of memory, want none: it is where it was", n)
	}
	for range 1000 {
		b.add(long)
	}
	if b.reuse(); cap(b.room) > shortLine || cap(b.parts) > keptParts || b.size != 0 {
		t.Errorf("there is room for %d bytes and %d parts, and the size is %d", cap(b.room), cap(b.parts), b.size)
	}
}
