// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var errNoRoom = errors.New("no room")

// sizeBound is a Bound that rejects larger sizes, and records its arguments.
type sizeBound struct {
	most  int
	asked int
	start string
}

func (r *sizeBound) Room(size int, start []byte) error {
	r.asked, r.start = max(r.asked, size), string(start[:10])
	if size > r.most {
		return errNoRoom
	}
	return nil
}

// A message that the Bound rejects is skipped, its error has its beginning and end, and
// later messages are not affected.
func TestBound(t *testing.T) {
	t.Parallel()
	large := `{"first":"` + strings.Repeat("x", 300<<10) + `","last":1}`
	for i, small := range []string{`{"small":1}`, strings.Repeat("y", 40<<10)} {
		b := &sizeBound{most: 200 << 10}
		for _, r := range inParts(small + "\n" + large + "\n" + small + "\n") {
			lines := NewLineReader(r, 1<<20)
			lines.Bound(b)
			for n := range 3 {
				line, err := lines.Next()
				wantMessage(t, n, string(line), err, small)
			}
		}
		for _, r := range inParts("data: " + small + "\n\ndata: " + large + "\n\ndata: " + small + "\n\n") {
			events := NewEventReader(r, 1<<20)
			events.Bound(b)
			for n := range 3 {
				event, err := events.Next()
				wantMessage(t, n, string(event.Data), err, small)
			}
		}
		if b.asked <= b.most || b.start != large[:10] {
			t.Errorf("%d: room was made for %d bytes that begin with %q", i, b.asked, b.start)
		}
	}
}

// inParts returns readers that return a text in parts of several sizes.
func inParts(text string) []io.Reader {
	return []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))}
}

// wantMessage checks the message with index n: the second one is rejected.
func wantMessage(t *testing.T, n int, got string, err error, small string) {
	t.Helper()
	if n != 1 {
		if got != small || err != nil {
			t.Fatalf("message %d: %d bytes, %v", n, len(got), err)
		}
		return
	}
	no, ok := errors.AsType[*NoRoomError](err)
	if !ok || !errors.Is(err, errNoRoom) || !strings.HasPrefix(string(no.Head), `{"first":"xx`) || !strings.HasSuffix(string(no.Tail), `xx","last":1}`) {
		t.Fatalf("message %d: %d bytes, %v", n, len(got), err)
	}
}
