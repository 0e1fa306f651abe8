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

// lentWriter is a writer that belongs to net/http again after the response, like that of
// HTTP/2: any use after that, on any goroutine, would crash the program.
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

// serve runs f as net/http does: it takes the writer back however the response ends.
func (w *lentWriter) serve(f func()) {
	defer func() {
		w.taken = true
		_ = recover() // the panic of an aborted response
	}()
	f()
}

// A deadline that is set after the end of a response has no effect, and the writer is not
// used.
func TestDeadlineAfterTheEnd(t *testing.T) {
	s := New(mcp.HandlerFunc(nil), Config{})
	defer s.Close()
	for _, cut := range []bool{false, true} {
		w := &lentWriter{timedWriter: timedWriter{ResponseRecorder: httptest.NewRecorder()}}
		p := s.newResponse(w, new(http.Request))
		p.aborted = cut
		w.serve(p.end)
		p.setDeadline(time.Now())
		if !p.final.IsZero() {
			t.Errorf("cut %t: it has a final deadline after its end", cut)
		}
	}
}

// An idle HTTP/2 stream has no deadline, unless a final one was set. On a connection of
// its own a deadline affects only writes, and is not removed.
func TestIdleStreamHasNoDeadline(t *testing.T) {
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
