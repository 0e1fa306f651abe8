// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// timedWriter is a response that records its deadlines.
type timedWriter struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (w *timedWriter) SetWriteDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return nil
}

// A small terminal message is written to the buffer of its own exchange; a large one is
// not copied.
func TestResultMessage(t *testing.T) {
	x, y := new(session.Stateless).Begin(jsonrpc.NumberID(1), nil, nil), new(session.Stateless).Begin(jsonrpc.NumberID(2), nil, nil)
	text := func(m session.Message) string { return string(m.Head) + string(m.Body) + string(m.Tail) }
	var e mcp.Edit
	e.SetText(mcp.FieldResultType, mcp.ResultComplete)
	var none mcp.Edit
	for _, pad := range []int{0, 150, 200, 300, maxCopied, 2 * maxCopied} {
		raw := `{"content":[],"pad":"` + strings.Repeat("x", pad) + `"}`
		res, err := mcp.NewResult([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		plain, edited := resultMessage(x.Buffer(), x.ID(), &none, &res.Object), resultMessage(y.Buffer(), y.ID(), &e, &res.Object)
		if got, want := text(plain), `{"jsonrpc":"2.0","id":1,"result":`+raw+`}`; got != want {
			t.Errorf("%d: got %s, want %s", pad, got, want)
		}
		if got, want := text(edited), `{"jsonrpc":"2.0","id":2,"result":`+raw[:len(raw)-1]+`,"resultType":"complete"}}`; got != want {
			t.Errorf("%d: got %s, want %s", pad, got, want)
		}
		if copied := plain.Body == nil; copied != (len(raw) <= maxCopied) {
			t.Errorf("%d: it was copied: %t", pad, copied)
		}
	}
	if got, want := text(resultMessage(nil, x.ID(), &none, &mcp.Object{})), `{"jsonrpc":"2.0","id":1,"result":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// I31, I25: a request has the values of the context of its HTTP request, but not its end.
func TestRequestHasTheValuesOfItsContext(t *testing.T) {
	type key struct{}
	came, leave := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
	var ir inflightRequest
	ctx := ir.begin(came, &mcp.Request{Method: "tools/call"}, modernEncoder{})
	inner, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	leave(errDisconnected)
	if got := inner.Value(key{}); got != "v" {
		t.Errorf("got the value %v, want v", got)
	}
	if ctx.Err() != nil || inner.Err() != nil || context.Cause(inner) != nil {
		t.Errorf("it ended with the request's: %v, %v", context.Cause(ctx), context.Cause(inner))
	}
	ir.stop(errCancelled)
	if <-inner.Done(); !errors.Is(context.Cause(inner), errCancelled) {
		t.Errorf("it ended for %v, want %v", context.Cause(inner), errCancelled)
	}
}

// A response of one write has one deadline, which is removed at the end. Later writes
// have deadlines of their own, however long the response lasts (M054).
func TestDeadlinesOfAResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(mcp.HandlerFunc(nil), Config{})
		defer s.Close()
		begin := time.Now()
		at := func(d time.Duration) time.Time { return begin.Add(d).Add(DefaultWriteTimeout) }

		small := &timedWriter{ResponseRecorder: httptest.NewRecorder()}
		p := s.newResponse(small, new(http.Request))
		p.writeJSON(&session.Message{Head: []byte(`{}`)})
		p.end()
		sameTimes(t, "a small answer", small.deadlines, at(0), time.Time{})

		long := &timedWriter{ResponseRecorder: httptest.NewRecorder()}
		p = s.newResponse(long, new(http.Request))
		p.writeComment()
		time.Sleep(DefaultWriteTimeout / deadlineSlack)
		p.writeComment()
		time.Sleep(time.Minute)
		p.writeComment()
		p.end()
		sameTimes(t, "a stream", long.deadlines,
			at(0), at(DefaultWriteTimeout/deadlineSlack), at(DefaultWriteTimeout/deadlineSlack+time.Minute), time.Time{})
	})
}

func sameTimes(t *testing.T, what string, got []time.Time, want ...time.Time) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d deadlines, want %d: %v", what, len(got), len(want), got)
	}
	for i := range got {
		if !got[i].Equal(want[i]) {
			t.Errorf("%s: deadline %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

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
