// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
)

// loop is a stream that never ends.
type loop struct {
	one []byte
	at  int
}

func (l *loop) Read(p []byte) (int, error) {
	if l.at == len(l.one) {
		l.at = 0
	}
	n := copy(p, l.one[l.at:])
	l.at += n
	return n, nil
}

func BenchmarkEventReader(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			one := AppendEvent(nil, "", bytes.Repeat([]byte("x"), size))
			r := NewEventReader(&loop{one: one}, size)
			b.SetBytes(int64(len(one)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLineReader(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			one := AppendLine(nil, bytes.Repeat([]byte("x"), size))
			r := NewLineReader(&loop{one: one}, size)
			b.SetBytes(int64(len(one)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			data := bytes.Repeat([]byte("x"), size)
			var dst []byte
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendEvent(dst[:0], "s/1", data)
			}
		})
	}
}

// Pretty-printed data, as some servers send it: a data field for each line.
func BenchmarkEventReaderLines(b *testing.B) {
	one := append(bytes.Repeat([]byte("data:   \"key\": \"value\",\n"), 400), '\n')
	r := NewEventReader(&loop{one: one}, len(one))
	b.SetBytes(int64(len(one)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendLine(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			msg := bytes.Repeat([]byte("x"), size)
			var dst []byte
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendLine(dst[:0], msg)
			}
		})
	}
}

// An event, or a line, is one allocation: the bytes that the caller keeps. A large one
// has a few more, while its buffer grows.
func TestReaderAllocations(t *testing.T) {
	for size, most := range map[int]float64{100: 1, 10 << 10: 1, 256 << 10: 4} {
		data := bytes.Repeat([]byte("x"), size)
		events := NewEventReader(&loop{one: AppendEvent(nil, "", data)}, size)
		lines := NewLineReader(&loop{one: AppendLine(nil, data)}, size)
		for name, next := range map[string]func() (int, error){
			"event": func() (int, error) { e, err := events.Next(); return len(e.Data), err },
			"line":  func() (int, error) { line, err := lines.Next(); return len(line), err },
		} {
			got := testing.AllocsPerRun(10, func() {
				if n, err := next(); n != size || err != nil {
					t.Fatalf("%s of %d bytes: %d, %v", name, size, n, err)
				}
			})
			if got > most {
				t.Errorf("%s of %d bytes: %v allocations, want at most %v", name, size, got, most)
			}
		}
	}
}

// The buffer size for a large message is known from the previous one: it is about as
// large as the message, and the bytes read before the size was known are moved once.
func TestLargeMessageAllocations(t *testing.T) {
	const size = 1 << 20
	data := bytes.Repeat([]byte("x"), size)
	events := NewEventReader(&loop{one: AppendEvent(nil, "", data)}, size)
	lines := NewLineReader(&loop{one: AppendLine(nil, data)}, size)
	for name, next := range map[string]func() (int, error){
		"event": func() (int, error) { e, err := events.Next(); return len(e.Data), err },
		"line":  func() (int, error) { line, err := lines.Next(); return len(line), err },
	} {
		var before, after runtime.MemStats
		const messages = 8
		for i := range messages + 2 { // the first two are the previous ones
			if i == 2 {
				runtime.ReadMemStats(&before)
			}
			if n, err := next(); n != size || err != nil {
				t.Fatalf("%s: %d, %v", name, n, err)
			}
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / messages; got > size+size/8 {
			t.Errorf("%s of %d bytes: %d bytes are allocated for it", name, size, got)
		}
	}
}

// IsFlat is called for a large result before it is written unmodified.
func BenchmarkIsFlat(b *testing.B) {
	text := bytes.Repeat([]byte("x"), 1<<20)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if !IsFlat(text) {
			b.Fatal("it has no line breaks")
		}
	}
}
