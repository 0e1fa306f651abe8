// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"fmt"
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
