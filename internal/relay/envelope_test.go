// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// For each message that the protocol's own parser accepts, the envelope says the same,
// however the text is split.
func TestEnvelopeAgreesWithParse(t *testing.T) {
	t.Parallel()
	values := []string{`1`, `"a"`, `null`, `{}`, `[]`, `{"id":7,"method":"x","error":{}}`, `[{"id":8}]`, `"\"id\":9,\\"`, `{"a":[{"id":[]},"}"]}`, `-1.5e3`, `true`}
	r := rand.New(rand.NewPCG(1, 2))
	any := func() string { return values[r.IntN(len(values))] }
	parsed := 0
	for range 20_000 {
		members := []string{`"jsonrpc":"2.0"`}
		for _, m := range []string{`"id":` + any(), `"method":"tools/` + fmt.Sprint(r.IntN(3)) + `\u0061"`, `"params":` + any(), `"result":` + any(), `"error":{"code":1,"message":"m","data":` + any() + `}`, `"x":` + any()} {
			if r.IntN(2) == 0 {
				members = append(members, m)
			}
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		text := strings.Join(members, []string{",", " ,\t"}[r.IntN(2)])
		line := []byte(" {" + strings.ReplaceAll(text, `":`, []string{`":`, `" : `}[r.IntN(2)]) + "}\r\n")
		want, err := mcp.Parse(line, mcp.Limits{})
		if err != nil {
			continue
		}
		parsed++
		var e envelopes
		for rest := line; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			e.read(rest[:n])
			rest = rest[n:]
		}
		got := e.messages()
		if len(got) != 1 {
			t.Fatalf("%s: %d messages", line, len(got))
		}
		m := got[0]
		if m.id != want.ID || m.method != want.Method || m.failed != (want.Kind == mcp.KindError) {
			t.Fatalf("%s: got %+v, want %v %q", line, m, want.ID, want.Method)
		}
		if !m.id.IsZero() && string(bytes.TrimSpace(line[m.idStart:m.idEnd])) != m.id.String() {
			t.Fatalf("%s: the id is at %q", line, line[m.idStart:m.idEnd])
		}
	}
	if parsed < 1000 {
		t.Errorf("only %d messages are valid", parsed)
	}
}

// A batch has the messages of its elements.
func TestEnvelopesOfABatch(t *testing.T) {
	t.Parallel()
	var e envelopes
	e.read([]byte(`[{"id":1,"method":"a","params":[{"id":3}]}, 5, [{"id":9}], {"method":"b"},{"result":{},"id":"x"}]` + "\n"))
	var got []string
	for _, m := range e.messages() {
		got = append(got, m.id.String()+m.method)
	}
	if want := `1a b "x"`; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A batch takes a bounded amount of memory, however long it is.
func TestEnvelopesAreBounded(t *testing.T) {
	t.Parallel()
	var e envelopes
	e.read([]byte{'['})
	for range 3 * maxMessages {
		e.read([]byte(`{"id":1},`))
	}
	if n := len(e.messages()); n != maxMessages {
		t.Errorf("%d messages are kept, want %d", n, maxMessages)
	}
}

// Parts are the text that was read, and each long line is more than one.
func TestParts(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, n := range []int{0, 1, firstBuffer - 1, firstBuffer, wholeLine - 1, wholeLine, wholeLine + 1, 3 * wholeLine, 5} {
		text.WriteString(strings.Repeat("x", n) + "\n")
	}
	text.WriteString("rest")
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "with the error": iotest.DataErrReader,
	} {
		p := newParts(reader(strings.NewReader(text.String())))
		var got strings.Builder
		whole := 0
		for {
			part, err := p.next()
			got.Write(part.data)
			if part.isWhole() {
				whole++
			}
			if len(part.data) > wholeLine {
				t.Errorf("%s: a part of %d bytes", name, len(part.data))
			}
			if err != nil {
				if !errors.Is(err, io.EOF) || string(part.data) != "rest" || part.last {
					t.Errorf("%s: at the end %v, %q", name, err, part.data)
				}
				break
			}
		}
		if got.String() != text.String() {
			t.Errorf("%s: %d bytes, want %d", name, got.Len(), text.Len())
		}
		if whole != 6 {
			t.Errorf("%s: %d whole lines, want 6", name, whole)
		}
	}
}

// A Relay reads no more text than it must to know a message: what is left is the copying.
func BenchmarkEnvelope(b *testing.B) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("word ", 2000) + `"}]}}` + "\n")
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var e envelopes
	for b.Loop() {
		e.reset()
		e.read(line)
	}
}
