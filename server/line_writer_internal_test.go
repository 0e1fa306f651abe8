// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// newPipe returns a pipeWriter with the streams of n requests.
func newPipe(tb testing.TB, n int) (*pipeWriter, *bytes.Buffer, []*session.Exchange) {
	tb.Helper()
	var out bytes.Buffer
	rules := session.Rules{Limits: session.Limits{Exchanges: n, Streams: 1, Messages: 1000, Bytes: 1 << 20}, Counts: new(session.Counters)}
	s := session.New("", "", &mcp.Peer{}, &rules)
	w := newPipeWriter(&out, func(err error) { tb.Error(err) })
	all := make([]*session.Exchange, n)
	for i := range all {
		e, err := s.Begin(jsonrpc.NumberID(uint64(i)+1), func(error) {})
		if err != nil {
			tb.Fatal(err)
		}
		all[i] = e
		w.add(e.Stream(), &inflight{})
	}
	return w, &out, all
}

func appendText(tb testing.TB, x *session.Exchange, text string) {
	tb.Helper()
	if full, err := x.Stream().Append(session.Message{Class: session.Plain, Head: []byte(text)}); full != nil || err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
}

// Each round writes the new messages of all streams, and removes the streams that have
// ended.
func TestPipeWriterWritesNewMessages(t *testing.T) {
	w, out, all := newPipe(t, 3)
	round := func(want string) {
		t.Helper()
		out.Reset()
		if w.writeAll() {
			t.Error("it reports that it is closing")
		}
		if got := strings.ReplaceAll(out.String(), "\n", "|"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	round("")
	appendText(t, all[1], "a")
	appendText(t, all[1], "b")
	round("a|b|")
	round("")
	appendText(t, all[2], "c\nd")
	all[0].Finish(session.Message{Head: []byte("<"), Body: []byte("\r\n"), Tail: []byte(">")})
	round("<  >|c d|")
	if busy, _ := w.busy(); busy != 2 {
		t.Errorf("%d requests are busy, want 2", busy)
	}
	w.close()
	if !w.writeAll() {
		t.Error("it does not report that it is closing")
	}
}

// Writing a message allocates nothing, however many idle requests there are.
func TestPipeWriterAllocations(t *testing.T) {
	w, out, all := newPipe(t, 100)
	m := session.Message{Class: session.Plain, Head: []byte("{"), Body: []byte(" "), Tail: []byte("}")}
	w.writeAll()
	got := testing.AllocsPerRun(100, func() {
		if full, err := all[0].Stream().Append(m); full != nil || err != nil {
			t.Fatal(err)
		}
		w.writeAll()
		out.Reset()
	})
	if got > 2 { // the queue of the stream, which was empty: two under the race detector
		t.Errorf("%v allocations for a message, want at most 2", got)
	}
}

func BenchmarkPipeWriter(b *testing.B) {
	w, out, all := newPipe(b, 100)
	b.ReportAllocs()
	for b.Loop() {
		appendText(b, all[50], "{}")
		w.writeAll()
		out.Reset()
	}
}
