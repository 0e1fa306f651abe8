// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"bytes"
	"compress/flate"
	"io"
)

// chunkSize is the size of the parts in which a long text is compressed, and minPacked that of the shortest one
// that is.
const (
	chunkSize = 64 << 10
	minPacked = 2 * chunkSize
)

// keptText is a text in memory. A long one is compressed, in parts, because a heap takes twice its content.
// It is immutable.
type keptText struct {
	size   int
	chunks []chunk
}

// chunk is a part of a keptText.
type chunk struct {
	bytes    []byte
	isPacked bool
}

// keep returns a keptText. It may keep the bytes.
func keep(text []byte) keptText {
	t := keptText{size: len(text)}
	if len(text) < minPacked {
		if cap(text)-len(text) > len(text)/8 {
			text = bytes.Clone(text)
		}
		t.chunks = []chunk{{bytes: text}}
		return t
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		panic("bound: a constant level is valid: " + err.Error()) //nolint:forbidigo // an invariant of this function
	}
	for from := 0; from < len(text); from += chunkSize {
		raw := text[from:min(from+chunkSize, len(text))]
		packed.Reset()
		w.Reset(&packed)
		_, _ = w.Write(raw) // a Buffer returns no error
		_ = w.Close()
		if packed.Len() < len(raw)/8*7 {
			t.chunks = append(t.chunks, chunk{bytes.Clone(packed.Bytes()), true})
		} else {
			t.chunks = append(t.chunks, chunk{bytes: bytes.Clone(raw)})
		}
	}
	return t
}

// bytes returns the size of the text in memory.
func (t *keptText) bytes() int64 {
	n := int64(0)
	for i := range t.chunks {
		n += int64(cap(t.chunks[i].bytes)) + 32
	}
	return n
}

// slice returns a part of the text, which must not be changed.
func (t *keptText) slice(from, to int) []byte {
	if t.size < minPacked {
		return t.chunks[0].bytes[from:to]
	}
	out := make([]byte, 0, to-from)
	for i := from / chunkSize; from < to; i++ {
		raw := t.chunks[i].unpack(min(chunkSize, t.size-i*chunkSize))
		part := raw[from-i*chunkSize : min(to-i*chunkSize, len(raw))]
		out = append(out, part...)
		from += len(part)
	}
	return out
}

// unpack returns the bytes of a chunk of a size.
func (c *chunk) unpack(size int) []byte {
	if !c.isPacked {
		return c.bytes
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(c.bytes)), raw); err != nil {
		panic("bound: what was compressed does not decompress: " + err.Error()) //nolint:forbidigo // an invariant of this file
	}
	return raw
}
