// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
)

// Lines of all lengths leave the queue in order. Lines that were written are not in it
// any more, although their memory is reused.
func TestWriteQueueKeepsTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var now, written writeQueue
	for range 500 {
		var want []byte
		for i := range r.IntN(30) {
			size := [...]int{1, 50, 500, shortLine - 1, shortLine, shortLine + 1, 3 * shortLine}[r.IntN(7)]
			msg := strings.Repeat(string(rune('a'+i%26)), size)
			now.add(split(r, msg))
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

// split returns a message in pieces like those of a request: the second is foreign, and
// the two around it share their memory.
func split(r *rand.Rand, msg string) jsonrpc.Pieces {
	from := r.IntN(len(msg) + 1)
	to := from + r.IntN(len(msg)-from+1)
	if from == to {
		return jsonrpc.Pieces{[]byte(msg)}
	}
	around := append(make([]byte, 0, len(msg)), msg[:from]+msg[to:]...)
	return jsonrpc.Pieces{around[:from:from], []byte(msg[from:to]), around[from:]}
}

// Pieces behind a long queue are copied: they may be held for long, and with them the
// whole message of the client.
func TestWriteQueueHoldsLittleOfOthers(t *testing.T) {
	var b writeQueue
	theirs := 0
	for range 1000 {
		middle := make([]byte, 32<<10)
		b.add(jsonrpc.Pieces{[]byte("{"), middle, []byte("}")})
		for _, part := range b.parts {
			if &part[0] == &middle[0] {
				theirs += len(middle)
			}
		}
	}
	if theirs == 0 || theirs > maxHeld {
		t.Errorf("%d bytes are held where they were, want %d at most", theirs, maxHeld)
	}
}

// A foreign message is never modified, even if it has line breaks, and not copied if it
// has none.
func TestWriteQueueLeavesTheSecondPieceAlone(t *testing.T) {
	for _, size := range []int{1, shortLine, shortLine + 1, 100 << 10} {
		for _, text := range []string{"points ", "points\r\n"} {
			middle := bytes.Repeat([]byte(text), size/len(text)+1)
			before := bytes.Clone(middle)
			var b writeQueue
			b.add(jsonrpc.Pieces{[]byte("{\n"), middle[:size:size], []byte("\n}")})
			b.add(jsonrpc.Pieces{[]byte("{}")})
			want := "{ " + strings.NewReplacer("\r", " ", "\n", " ").Replace(string(before[:size])) + " }\n{}\n"
			if got := string(bytes.Join(b.parts, nil)); got != want || !bytes.Equal(middle, before) {
				t.Errorf("%d bytes of %q make %.30q...%q of %d bytes", size, text, got, got[max(0, len(got)-10):], len(got))
			}
			b.reuse()
			b.add(jsonrpc.Pieces{[]byte("overwritten")})
			if !bytes.Equal(middle, before) {
				t.Errorf("%d bytes of %q are written over", size, text)
			}
		}
	}
	middle := make([]byte, 100<<10)
	var b writeQueue
	if b.add(jsonrpc.Pieces{[]byte("{"), middle, []byte("}")}); len(b.parts) != 3 || &b.parts[1][0] != &middle[0] {
		t.Error("what is flat is copied")
	}
}

// A short line allocates no memory, a long one is not copied, and the queue keeps
// little memory.
func TestWriteQueueTakesLittleMemory(t *testing.T) {
	short, long := []byte(`{"short":true}`), make([]byte, 1<<20, 1<<20+1)
	var b writeQueue
	b.add(jsonrpc.Pieces{short})
	if n := testing.AllocsPerRun(100, func() {
		b.reuse()
		for range 10 {
			b.add(jsonrpc.Pieces{short})
		}
	}); n > 0 {
		t.Errorf("ten short lines take %v pieces of memory, want none", n)
	}
	if n := testing.AllocsPerRun(10, func() {
		b.reuse()
		b.add(jsonrpc.Pieces{short})
		b.add(jsonrpc.Pieces{long})
	}); n > 0 || &b.parts[1][0] != &long[0] {
		t.Errorf("a long line takes %v pieces of memory, want none: it is where it was", n)
	}
	b.reuse()
	for range 3 {
		b.add(jsonrpc.Pieces{make([]byte, shortLine-10)}) // all but the first grow what is there
	}
	for range 1000 {
		b.add(jsonrpc.Pieces{long})
	}
	b.add(jsonrpc.Pieces{long[:1:1], long, append(make([]byte, 0, 1<<20), '}')})
	if b.reuse(); cap(b.spare) > shortLine || cap(b.parts) > keptParts || b.size != 0 {
		t.Errorf("there is room for %d bytes and %d parts, and the size is %d", cap(b.spare), cap(b.parts), b.size)
	}
}
