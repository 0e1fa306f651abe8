// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// lentWriter is a writer that net/http takes back, as it does that of HTTP/2: whoever
// uses it after that, in whatever goroutine, brings the program down.
type lentWriter struct {
	timedWriter
	taken bool
}

func (w *lentWriter) SetWriteDeadline(t time.Time) error {
	if w.taken {
		panic("the writer is net/http's again")
	}
	return w.timedWriter.SetWriteDeadline(t)
}

// serve is what net/http does: it takes the writer back however the response ends.
func (w *lentWriter) serve(f func()) {
	defer func() {
		w.taken = true
		_ = recover() // of the one that is cut
	}()
	f()
}

// Whoever is in a hurry when all is over does nothing, and a writer that is another's is
// left alone.
func TestHurryAfterTheEnd(t *testing.T) {
	s := New(mcp.HandlerFunc(nil), Config{})
	defer s.Close()
	for _, cut := range []bool{false, true} {
		w := &lentWriter{timedWriter: timedWriter{ResponseRecorder: httptest.NewRecorder()}}
		p := s.newResponse(w, new(http.Request))
		p.aborted = cut
		w.serve(p.end)
		p.setDeadline(time.Now())
		if p.finalDeadline.Load() != nil {
			t.Errorf("cut %t: it is in a hurry after its end", cut)
		}
	}
}

// What is quiet for a while has no deadline on a stream of HTTP/2, unless it is to be
// over: then it has that of the one in a hurry. On a connection of its own the deadline
// hits nothing but a write, and is not moved for nothing.
func TestQuietHasNoDeadline(t *testing.T) {
	s := New(mcp.HandlerFunc(nil), Config{})
	defer s.Close()
	by := time.Now().Add(time.Hour)
	tests := []struct {
		name      string
		major     int
		isHurried bool
		want      time.Time // zero for none
		left      bool      // the deadline is that of the write
	}{
		{"HTTP/1.1", 1, false, time.Time{}, true},
		{"HTTP/2", 2, false, time.Time{}, false},
		{"HTTP/2 in a hurry", 2, true, by, false},
	}
	for _, tt := range tests {
		w := &timedWriter{ResponseRecorder: httptest.NewRecorder()}
		p := s.newResponse(w, &http.Request{ProtoMajor: tt.major})
		if tt.isHurried {
			p.setDeadline(by)
		}
		p.writeComment()
		last := w.deadlines[len(w.deadlines)-1]
		if isOfWrite := !last.IsZero() && last.Before(by); isOfWrite != tt.left || !tt.left && !last.Equal(tt.want) {
			t.Errorf("%s: the last deadline is %v", tt.name, last)
		}
	}
}
