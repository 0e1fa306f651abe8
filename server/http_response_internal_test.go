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

// I22: a response that is reused is clean: it has nothing of the first request, and none
// of its streams can wake it.
func TestReusedResponseIsClean(t *testing.T) {
	s := New(mcp.HandlerFunc(nil), Config{})
	defer s.Close()
	p := s.newResponse(&timedWriter{ResponseRecorder: httptest.NewRecorder()}, new(http.Request))
	x := session.NewStateless(jsonrpc.NumberID(1), &s.rules, session.StopFunc(func(error) {}))
	p.attachExchange(x)
	c := &p.consumer
	superseding := x.Stream().Attach(make(chan struct{}, 1)) // wakes p, which does not check
	x.Finish(session.Message{Head: []byte(`{"secret":1}`)})
	c.Detach()
	p.writeJSON(&session.Message{Head: []byte(`{"a":`), Body: []byte(`"secret"`), Tail: []byte(`}`)})
	p.end()
	grace := p.graceFor(time.Hour)
	grace.Stop()
	s.recycle(p)
	superseding.Detach()

	switch {
	case p.w != nil, p.err != nil, p.primed, p.aborted, p.ended, !p.deadline.IsZero(), p.batch[0].Head != nil:
		t.Errorf("state is left: %+v", p)
	case p.consumer != (session.Consumer{}):
		t.Error("the consumer is left")
	case len(p.wake) != 0:
		t.Error("it is still woken")
	case len(p.buf) != 0:
		t.Error("the buffer is not empty")
	}
}

// The header belongs to one request, and may be read when the response already serves
// another.
func TestHeaderOutlivesTheResponse(t *testing.T) {
	s := New(mcp.HandlerFunc(nil), Config{})
	defer s.Close()
	for _, attached := range []bool{false, true} {
		old := httptest.NewRecorder()
		p := s.newResponse(old, new(http.Request))
		if attached {
			ir := new(inflightRequest)
			ir.x = session.NewStateless(jsonrpc.NumberID(1), &s.rules, session.StopFunc(func(error) {}))
			p.attach(ir)
			p.consumer.Detach()
		}
		p.writeJSON(&session.Message{Head: []byte(`{}`)})
		s.recycle(p)

		p.w = httptest.NewRecorder()
		p.writeJSON(&session.Message{Head: []byte(`{"a":"longer"}`)})
		if got := old.Header(); got.Get("Content-Length") != "2" || got.Get("Content-Type") != jsonType {
			t.Errorf("the header of the first answer has become %v", got)
		}
		if h := p.w.Header(); h.Get("Content-Length") != "14" {
			t.Errorf("the header of the second is %v", h)
		}
	}
}

// A small terminal message is written to the buffer of its own exchange; a large one is
// not copied.
func TestResultMessage(t *testing.T) {
	x, y := session.NewStateless(jsonrpc.NumberID(1), nil, nil), session.NewStateless(jsonrpc.NumberID(2), nil, nil)
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
	ir.stop.End(errCancelled)
	if <-inner.Done(); !errors.Is(context.Cause(inner), errCancelled) {
		t.Errorf("it ended for %v, want %v", context.Cause(inner), errCancelled)
	}
}

// A response that was aborted, or that another goroutine may refer to, is not reused; and
// a large buffer is not kept for small responses.
func TestResponseIsNotReused(t *testing.T) {
	s := New(mcp.HandlerFunc(nil), Config{})
	defer s.Close()
	for name, spoil := range map[string]func(*response){
		"aborted":        func(p *response) { p.aborted = true },
		"final deadline": func(p *response) { p.setDeadline(time.Now()) },
	} {
		p := s.newResponse(&timedWriter{ResponseRecorder: httptest.NewRecorder()}, new(http.Request))
		spoil(p)
		s.recycle(p)
		if p.w == nil {
			t.Errorf("%s: it was reused", name)
		}
	}
	p := s.newResponse(&timedWriter{ResponseRecorder: httptest.NewRecorder()}, new(http.Request))
	p.buf = make([]byte, maxReusedBuffer+1)
	s.recycle(p)
	if p.buf != nil {
		t.Errorf("a buffer of %d bytes was kept", cap(p.buf))
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
