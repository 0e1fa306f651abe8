// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// backend is a scripted server, together with the Handler in front of it, which passes its
// answer to the caller. It belongs to a bubble.
type backend struct {
	from   mcp.Version
	length int64                                                 // as the backend announces it; 0 for none
	before func(ctx context.Context, c mcp.Caller) error         // runs in the Handler before the answer
	after  func(res *mcp.Result, err error) (*mcp.Result, error) // changes the outcome of the Handler
	write  func(body *io.PipeWriter)                             // writes the answer
	read   atomic.Int64                                          // bytes read of the answer
	stops  atomic.Int32                                          // how often reading was stopped
	taken  chan bool
	result chan error // what Receive returned
}

func (b *backend) serve(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	if b.before != nil {
		if err := b.before(ctx, c); err != nil {
			return nil, err
		}
	}
	body, w := io.Pipe()
	go b.write(w) // ends with the answer, or when the pipe is closed
	defer body.Close()
	a := jsonrpc.NewArrival(&counted{body, &b.read}, cmp.Or(b.length, -1), mcp.Limits{}, 1<<30)
	if whole, err := a.Begin(); err != nil || whole != nil {
		return nil, errors.Join(errors.New("there is no window of the answer"), err)
	}
	arriving := jsonrpc.NewArriving(&a, b.from, func() {
		b.stops.Add(1)
		body.CloseWithError(context.Canceled)
	})
	taken, err := c.Extension().Receive(ctx, arriving)
	b.taken <- taken
	if taken {
		b.result <- err
		res := arriving.Result()
		if b.after != nil {
			return b.after(res, err)
		}
		return res, err
	}
	whole, err := a.Gather()
	if err != nil {
		return nil, err
	}
	m, err := mcp.Parse(whole, mcp.Limits{})
	return &m.Result, err
}

// counted counts the bytes read.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// withBackend runs f in a bubble with a site in front of a backend.
func withBackend(t *testing.T, from mcp.Version, f func(*site, *backend), change ...func(*server.Config)) {
	t.Helper()
	b := &backend{from: from}
	cfg := server.Config{PassArriving: true}
	for _, c := range change {
		c(&cfg)
	}
	h := tools(map[string]mcp.HandlerFunc{"large": b.serve, "echo": fixedResult(`{"content":[]}`)})
	bubble(t, h, cfg, func(s *site) {
		b.taken, b.result = make(chan bool, 8), make(chan error, 8)
		f(s, b)
	})
}

// The parts of an answer: the head, a text longer than a window, and the end.
const (
	answerHead = `{"jsonrpc":"2.0","id":31,"result":{`
	typed      = `"resultType":"complete",`
	contentTo  = `"content":[{"type":"text","text":"`
	answerTail = `"}]}}`
)

func filler(n int) string { return strings.Repeat("abcdefgh", n/8) }

// inParts answers with the parts, waiting for next between them.
func inParts(next <-chan struct{}, parts ...string) func(*io.PipeWriter) {
	return func(w *io.PipeWriter) {
		for i, part := range parts {
			if i > 0 {
				<-next
			}
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
		w.Close()
	}
}

// largeRequest is a request for the tool by a client of either era.
func (s *site) largeRequest(era mcp.Era) *http.Request {
	s.t.Helper()
	if era == mcp.EraModern {
		return s.request(s.ctx(), http.MethodPost, modern("5", "tools/call", `"name":"large"`), modernHeaders("tools/call", "large"))
	}
	return s.request(s.ctx(), http.MethodPost, raw("5", "tools/call", `{"name":"large"}`), s.session())
}

// begin sends the request and returns the response as soon as its header has arrived.
func (s *site) begin(r *http.Request) *http.Response {
	s.t.Helper()
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func readExactly(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	buf := make([]byte, n)
	if _, err := io.ReadFull(r, buf); err != nil {
		t.Fatalf("reading %d bytes: %v", n, err)
	}
	return string(buf)
}

// arrivingCells are the four combinations of the client's era and the backend's revision.
var arrivingCells = []struct {
	name   string
	client mcp.Era
	from   mcp.Version
	sent   string // the start of the result, as the backend sends it
	front  string // as the client receives it
}{
	{"legacy, legacy", mcp.EraLegacy, mcp.V20251125, ``, ``},
	{"legacy, modern", mcp.EraLegacy, mcp.V20260728, typed, ``},
	{"modern, legacy", mcp.EraModern, mcp.V20251125, ``, typed},
	{"modern, modern", mcp.EraModern, mcp.V20260728, typed, typed},
}

// In each cell a client receives what has arrived of a result before the rest has, and in
// the end the same bytes as of a result that is sent at once.
func TestResultIsPassedOnEarly(t *testing.T) {
	for _, tt := range arrivingCells {
		t.Run(tt.name, func(t *testing.T) {
			withBackend(t, tt.from, func(s *site, b *backend) {
				next := make(chan struct{})
				one, two := filler(96<<10), filler(200<<10)
				b.write = inParts(next, answerHead+tt.sent+contentTo+one, two, answerTail+"\n")
				res := s.begin(s.largeRequest(tt.client))
				if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "application/json" {
					t.Fatalf("answered %d %s", res.StatusCode, ct)
				}
				first := `{"jsonrpc":"2.0","id":5,"result":{` + tt.front + contentTo + one
				equal(t, "the first part", readExactly(t, res.Body, len(first)), first)
				next <- struct{}{}
				equal(t, "the second part", readExactly(t, res.Body, len(two)), two)
				next <- struct{}{}
				rest, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "the end", string(rest), answerTail)
				if taken, err := <-b.taken, <-b.result; !taken || err != nil {
					t.Errorf("Receive = %v, %v", taken, err)
				}
			})
		})
	}
}

// A result has a Content-Length if its answer had one, and is padded with white space to
// that length: what follows the result and what is left out is not known in advance.
func TestResultIsAsLongAsAnnounced(t *testing.T) {
	filler := filler(96 << 10)
	tails := map[string]string{
		"short":                answerTail,
		"more behind":          `"}]},"unknown":"` + strings.Repeat("x", 300) + `"}`,
		"a member is left out": `"}],"ttlMs":1000}}`,
	}
	for _, tt := range arrivingCells {
		for name, tail := range tails {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				withBackend(t, tt.from, func(s *site, b *backend) {
					sent := answerHead + tt.sent + contentTo + filler + tail
					b.length = int64(len(sent))
					b.write = inParts(nil, sent)
					res := s.begin(s.largeRequest(tt.client))
					got, err := io.ReadAll(res.Body)
					if err != nil || res.ContentLength != int64(len(got)) {
						t.Fatalf("%d bytes and %v, of %d", len(got), err, res.ContentLength)
					}
					if taken, err := <-b.taken, <-b.result; !taken || err != nil {
						t.Errorf("Receive = %v, %v", taken, err)
					}
					m, err := mcp.Parse(got, mcp.Limits{})
					if err != nil || m.ID.String() != "5" || !strings.Contains(string(m.Result.Raw(mcp.FieldContent)), filler) {
						t.Errorf("%.60s … %q: %v", got, got[max(0, len(got)-60):], err)
					}
				})
			})
		}
	}
}

// A backend that sends less than it has announced has broken off.
func TestResultIsShorterThanAnnounced(t *testing.T) {
	withBackend(t, mcp.V20251125, func(s *site, b *backend) {
		sent := answerHead + contentTo + filler(96<<10)
		b.length = int64(len(sent) + len(answerTail))
		b.write = inParts(nil, sent)
		res := s.begin(s.largeRequest(mcp.EraModern))
		if got, err := io.ReadAll(res.Body); !isTruncated(err) {
			t.Errorf("%d bytes and %v, want that it has broken off", len(got), err)
		}
		if taken, err := <-b.taken, <-b.result; !taken || err == nil {
			t.Errorf("Receive = %v, %v", taken, err)
		}
		s.advance(0)
	})
}

// A result that breaks off is never taken for a whole answer, whichever side is the cause:
// the connection breaks (I3), and nothing of the call is left.
func TestResultBreaksOff(t *testing.T) {
	one := filler(96 << 10)
	died := errors.New("the backend died")
	tests := []struct {
		name  string
		say   func(w *io.PipeWriter)
		after func(*mcp.Result, error) (*mcp.Result, error)
		want  error // the error that the Handler gets
	}{
		{"the backend dies", func(w *io.PipeWriter) {
			_, _ = io.WriteString(w, answerHead+contentTo+one)
			w.CloseWithError(died)
		}, nil, died},
		{"the backend ends in the middle", func(w *io.PipeWriter) {
			_, _ = io.WriteString(w, answerHead+contentTo+one)
			w.Close()
		}, nil, &mcp.ParseError{}},
		{"the text turns wrong", func(w *io.PipeWriter) {
			_, _ = io.WriteString(w, answerHead+contentTo+one+"\x00"+one+answerTail)
			w.Close()
		}, nil, &mcp.ParseError{}},
		{"the envelope turns wrong", func(w *io.PipeWriter) {
			_, _ = io.WriteString(w, answerHead+contentTo+one+`"}]},"error":{"code":1,"message":"m"}}`)
			w.Close()
		}, nil, &mcp.ParseError{}},
		{"something follows", func(w *io.PipeWriter) {
			_, _ = io.WriteString(w, answerHead+contentTo+one+answerTail+"{}")
			w.Close()
		}, nil, &mcp.ParseError{}},
		{"its type turns out to be another", func(w *io.PipeWriter) {
			_, _ = io.WriteString(w, answerHead+contentTo+one+`"}],"resultType":"input_required"}}`)
			w.Close()
		}, nil, &mcp.ParseError{}},
		{"the Handler fails in the end", writeWhole(one), func(*mcp.Result, error) (*mcp.Result, error) {
			return nil, errors.New("something else")
		}, nil},
		{"the Handler panics in the end", writeWhole(one), func(*mcp.Result, error) (*mcp.Result, error) {
			panic("oh")
		}, nil},
		{"the Handler ends its goroutine", writeWhole(one), func(*mcp.Result, error) (*mcp.Result, error) {
			runtime.Goexit()
			return nil, nil //nolint:nilnil // never reached
		}, nil},
		{"the Handler returns another result", writeWhole(one), func(*mcp.Result, error) (*mcp.Result, error) {
			return result(`{"content":[]}`)
		}, nil},
	}
	for _, tt := range tests {
		for _, era := range []mcp.Era{mcp.EraLegacy, mcp.EraModern} {
			t.Run(tt.name+", "+era.String(), func(t *testing.T) {
				withBackend(t, mcp.V20251125, func(s *site, b *backend) {
					b.write, b.after = tt.say, tt.after
					res := s.begin(s.largeRequest(era))
					got, err := io.ReadAll(res.Body)
					if !isTruncated(err) {
						t.Errorf("the answer ended with %v after %d bytes, want that it has broken off", err, len(got))
					}
					if !sameKind(<-b.result, tt.want) {
						t.Errorf("Receive: another error than %v", tt.want)
					}
					s.advance(0)
					if n := s.server.Stats().InFlight; n != 0 {
						t.Errorf("%d requests are in flight", n)
					}
				})
			})
		}
	}
}

func writeWhole(text string) func(*io.PipeWriter) {
	return func(w *io.PipeWriter) {
		_, _ = io.WriteString(w, answerHead+contentTo+text+answerTail)
		w.Close()
	}
}

// sameKind reports whether err is want, or of its type.
func sameKind(err, want error) bool {
	if _, ok := want.(*mcp.ParseError); ok { //nolint:errorlint // of the table
		_, ok := errors.AsType[*mcp.ParseError](err)
		return ok
	}
	return errors.Is(err, want)
}

// A client that disconnects or cancels its request ends the reading of the answer, also
// while nothing arrives; so do the end of its session and that of the server.
func TestResultOfCancelledRequest(t *testing.T) {
	tests := []struct {
		name string
		era  mcp.Era
		end  func(s *site, hs headers, res *http.Response)
	}{
		{"the client goes", mcp.EraLegacy, func(_ *site, _ headers, res *http.Response) { res.Body.Close() }},
		{"the client goes", mcp.EraModern, func(_ *site, _ headers, res *http.Response) { res.Body.Close() }},
		{"cancelled", mcp.EraLegacy, func(s *site, hs headers, _ *http.Response) {
			s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, hs)
		}},
		{"the session is deleted", mcp.EraLegacy, func(s *site, hs headers, _ *http.Response) {
			s.do(s.request(s.ctx(), http.MethodDelete, "", hs))
		}},
		{"the server is closed", mcp.EraLegacy, func(s *site, _ headers, _ *http.Response) { s.server.Close() }},
		{"the server is closed", mcp.EraModern, func(s *site, _ headers, _ *http.Response) { s.server.Close() }},
		{"a shutdown runs out of time", mcp.EraModern, func(s *site, _ headers, _ *http.Response) {
			ctx, cancel := context.WithTimeout(s.ctx(), time.Minute)
			defer cancel()
			if err := s.server.Shutdown(ctx); err == nil {
				s.t.Error("Shutdown cut nothing")
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name+", "+tt.era.String(), func(t *testing.T) {
			withBackend(t, mcp.V20251125, func(s *site, b *backend) {
				never := make(chan struct{})
				one := filler(96 << 10)
				b.write = inParts(never, answerHead+contentTo+one, answerTail)
				defer close(never)
				r := s.largeRequest(tt.era)
				hs := headers{"Mcp-Session-Id": r.Header.Get("Mcp-Session-Id")}
				res := s.begin(r)
				defer res.Body.Close()
				readExactly(t, res.Body, len(one))
				synctest.Wait() // until nothing more arrives
				tt.end(s, hs, res)
				if err := <-b.result; err == nil {
					t.Error("Receive returned no error")
				}
				if b.stops.Load() == 0 {
					t.Error("the reading was not ended")
				}
				if _, err := io.ReadAll(res.Body); err == nil {
					t.Error("the answer looks whole")
				}
			})
		})
	}
}

// Shutdown waits for an answer that is still arriving, as for any request.
func TestShutdownWaitsForArrivingResult(t *testing.T) {
	withBackend(t, mcp.V20251125, func(s *site, b *backend) {
		next := make(chan struct{})
		b.write = inParts(next, answerHead+contentTo+filler(96<<10), answerTail)
		res := s.begin(s.largeRequest(mcp.EraModern))
		down := make(chan error, 1)
		go func() { down <- s.server.Shutdown(s.ctx()) }() // ends with the request
		synctest.Wait()
		next <- struct{}{}
		if body, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(body), answerTail) {
			t.Errorf("the answer ended with %v", err)
		}
		if err := <-down; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
	})
}

// A client that does not read slows the backend down: no more of the answer is read than
// windows and buffers hold. A client that has stopped reading is given up.
func TestSlowClientSlowsBackend(t *testing.T) {
	withBackend(t, mcp.V20251125, func(s *site, b *backend) {
		const size = 32 << 20
		b.write = writeWhole(filler(size))
		res := s.begin(s.largeRequest(mcp.EraModern))
		synctest.Wait()
		if got := b.read.Load(); got > 1<<20 {
			t.Errorf("%d bytes were read for a client that reads none", got)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || len(body) < size {
			t.Errorf("read %d bytes, %v", len(body), err)
		}
		res = s.begin(s.largeRequest(mcp.EraModern))
		defer res.Body.Close()
		s.advance(server.DefaultWriteTimeout + time.Second)
		<-b.result
		if err := <-b.result; !errors.Is(err, jsonrpc.ErrNotTaken) {
			t.Errorf("Receive = %v, want ErrNotTaken", err)
		}
	})
}

// The place of a request is free before its client can know that the request is over.
func TestPlaceIsFreeAfterPassedResult(t *testing.T) {
	limited := func(c *server.Config) { c.Limits.InFlightPerSession, c.Limits.InFlightPerPrincipal = 1, 1 }
	for _, era := range []mcp.Era{mcp.EraLegacy, mcp.EraModern} {
		t.Run(era.String(), func(t *testing.T) {
			withBackend(t, mcp.V20251125, func(s *site, b *backend) {
				b.write = writeWhole(filler(96 << 10))
				r := s.largeRequest(era)
				for range 20 {
					again := r.Clone(s.ctx())
					again.Body, _ = r.GetBody()
					if got := s.do(again); got.status != 200 || !strings.HasSuffix(got.body, answerTail) {
						t.Fatalf("%d %.200s", got.status, got.body)
					}
					<-b.taken
					<-b.result
				}
			}, limited)
		})
	}
}

// If the answer cannot be a single JSON object any more, or the result must be seen whole,
// nothing is passed on early, and the client receives the usual answer.
func TestResultIsGathered(t *testing.T) {
	notify := func(ctx context.Context, c mcp.Caller) error {
		n, err := mcp.NewNotification("notifications/progress", []byte(`{"progressToken":"p","progress":1}`))
		if err != nil {
			return err
		}
		return c.Notify(ctx, n)
	}
	wait := func(ctx context.Context, _ mcp.Caller) error {
		time.Sleep(server.DefaultGrace + time.Second)
		return ctx.Err()
	}
	const token = `,"_meta":{"progressToken":"p"}`
	opened := func(version string) func(s *site, call string) reply {
		return func(s *site, call string) reply { return s.post(call, s.handshake(opening(version))) }
	}
	batched := func(s *site, call string) reply { return s.post("["+call+"]", s.handshake(opening("2025-03-26"))) }
	tests := []struct {
		name   string
		from   mcp.Version
		front  string
		before func(context.Context, mcp.Caller) error
		send   func(s *site, call string) reply
	}{
		{"a stream has begun", mcp.V20251125, "", notify, opened("2025-11-25")},
		{"patience is over", mcp.V20251125, "", wait, opened("2025-11-25")},
		{"a batch", mcp.V20250326, "", nil, batched},
		{"an older client", mcp.V20251125, "", nil, opened("2025-03-26")},
		{"content has not begun", mcp.V20251125, `"x":"` + filler(96<<10) + `",`, nil, opened("2025-11-25")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			withBackend(t, tt.from, func(s *site, b *backend) {
				b.before = tt.before
				b.write = func(w *io.PipeWriter) {
					_, _ = io.WriteString(w, answerHead+tt.front+contentTo+filler(96<<10)+answerTail)
					w.Close()
				}
				got := tt.send(s, raw("5", "tools/call", `{"name":"large"`+token+`}`))
				if <-b.taken {
					t.Error("the result was taken")
				}
				if want := `"id":5,"result":{`; got.status != 200 || !strings.Contains(got.body, want) || !strings.Contains(got.body, answerTail) {
					t.Errorf("%d %.100s … %s", got.status, got.body, got.body[max(0, len(got.body)-50):])
				}
			})
		})
	}
}

// A Handler without PassArriving receives whole results.
func TestResultIsGatheredByDefault(t *testing.T) {
	withBackend(t, mcp.V20251125, func(s *site, b *backend) {
		b.write = writeWhole(filler(96 << 10))
		if got := s.do(s.largeRequest(mcp.EraModern)); <-b.taken || got.header.Get("Content-Length") == "" {
			t.Error("the result was taken")
		}
	}, func(c *server.Config) { c.PassArriving = false })
}

// A question that is open when the answer begins to arrive is over: the client receives the
// answer and no question.
func TestQuestionEndsWhenTheResultArrives(t *testing.T) {
	withBackend(t, mcp.V20251125, func(s *site, b *backend) {
		asked := make(chan error, 1)
		b.before = func(ctx context.Context, c mcp.Caller) error {
			ask, err := mcp.NewRequest("roots/list", []byte(`{}`))
			if err != nil {
				return err
			}
			wait, err := c.Start(ctx, ask)
			if err != nil {
				return err
			}
			go func() { // ends with the question
				_, err := wait()
				asked <- err
			}()
			return nil
		}
		next := make(chan struct{})
		b.write = inParts(next, answerHead+contentTo+filler(96<<10), answerTail)
		body := strings.Replace(modern("5", "tools/call", `"name":"large"`), `clientCapabilities":{}`, `clientCapabilities":{"roots":{}}`, 1)
		res := s.begin(s.request(s.ctx(), http.MethodPost, body, modernHeaders("tools/call", "large")))
		if err := <-asked; !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("the question ended with %v, want ErrRequestEnded", err)
		}
		readExactly(t, res.Body, 96<<10)
		s.advance(time.Minute)
		next <- struct{}{}
		if got, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(got), answerTail) {
			t.Errorf("the answer ended with %v", err)
		}
	})
}

// A call of 2025-11-25 for a task is answered with a task: its result is not passed on.
func TestResultOfATaskIsGathered(t *testing.T) {
	b := &backend{from: mcp.V20260728, write: writeWhole(filler(96 << 10))}
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method == "tools/call" {
			return b.serve(ctx, req, c)
		}
		return result(`{"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	})
	bubble(t, h, server.Config{PassArriving: true}, func(s *site) {
		b.taken, b.result = make(chan bool, 1), make(chan error, 1)
		sess := s.session()
		id := taskIDIn(s.post(raw("5", "tools/call", `{"name":"large","task":{}}`), sess).body)
		if <-b.taken {
			t.Error("the result was taken")
		}
		if got := s.post(raw("6", "tasks/result", `{"taskId":"`+id+`"}`), sess); !strings.Contains(got.body, filler(96<<10)) {
			t.Errorf("tasks/result: %.300s", got.body)
		}
	})
}
