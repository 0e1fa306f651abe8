// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// pieceWriter records the size of each write, and the time that it had.
type pieceWriter struct {
	timedWriter
	sizes []int
	times []time.Duration
}

func (w *pieceWriter) Write(b []byte) (int, error) {
	w.sizes = append(w.sizes, len(b))
	w.times = append(w.times, time.Until(w.deadlines[len(w.deadlines)-1]))
	return w.timedWriter.Write(b)
}

// Each write costs a system call and wakes a waiting client, so a large response takes
// few writes, and none for the brace at its end. Each has time for a client on a slow
// line.
func TestLargeAnswerIsFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(mcp.HandlerFunc(nil), Config{})
		defer s.Close()
		const head, tail = `{"result":"`, `"}`
		for _, n := range []int{0, 1, lastPiece, maxJoined, maxJoined + 1, 450 << 10, largePiece, largePiece + lastPiece, 1 << 20, 3<<20 + 1} {
			body := strings.Repeat("abcdefg", n/7+1)[:n]
			w := &pieceWriter{timedWriter: timedWriter{ResponseRecorder: httptest.NewRecorder()}}
			p := s.newResponse(w, new(http.Request))
			p.writeJSON(&session.Message{Head: []byte(head), Body: []byte(body), Tail: []byte(tail)})
			p.end()

			if got := w.Body.String(); got != head+body+tail {
				t.Errorf("%d bytes: a different response, of %d bytes", n, len(got))
			}
			// One for the head, one for the last piece, and one for a remainder.
			if got, most := len(w.sizes), n/(256<<10)+3; got > most {
				t.Errorf("%d bytes: %d writes, want %d at most", n, got, most)
			}
			if last := w.sizes[len(w.sizes)-1]; last < min(n, lastPiece)+len(tail) {
				t.Errorf("%d bytes: the last write is of %d bytes", n, last)
			}
			for i, size := range w.sizes {
				if least := DefaultWriteTimeout * time.Duration(size/slowPiece); w.times[i] < max(least, DefaultWriteTimeout) {
					t.Errorf("%d bytes: a write of %d bytes has %v, want %v at least", n, size, w.times[i], least)
				}
			}
		}
	})
}
