// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/http1"
)

// answerCase is a server's response to the first request, and its outcome.
type answerCase struct {
	name   string
	method string   // GET if empty
	says   []string // each arrives separately
	stays  bool     // the connection stays open after it
	want   outcome
	kept   bool // the next request uses the same connection

	// ordered means that the last of says has to arrive before the next request. On sockets
	// this is TestLaterDataOnSocket.
	ordered bool

	// differs is the reason why std, of net/http, has another outcome.
	differs string
	std     outcome
}

// outcome is the client's result of a response.
type outcome struct {
	Status  string
	Header  http.Header
	Body    string
	Trailer http.Header
	Length  int64
	Failed  string // where: in the "head" or the "body"; or "long" for a head that is
}

func head(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n\r\n" }

func fine(body string, length int64, header http.Header) outcome {
	return outcome{Status: "200 OK", Header: header, Body: body, Length: length}
}

func lengths(n string) http.Header { return http.Header{"Content-Length": {n}} }

func answerCases() []answerCase {
	const chunked = "Transfer-Encoding: chunked"
	two := fine("ok", 2, lengths("2"))
	return []answerCase{
		{name: "with a length", says: []string{ok}, stays: true, want: two, kept: true},
		{name: "with a length, in single bytes", says: strings.Split(ok, ""), stays: true, want: two, kept: true},
		{name: "with a length, shorter than that", says: []string{head("HTTP/1.1 200 OK", "Content-Length: 3") + "ok"},
			want: outcome{Status: "200 OK", Header: lengths("3"), Body: "ok", Length: 3, Failed: "body"}},
		{name: "empty", says: []string{head("HTTP/1.1 200 OK", "Content-Length: 0")}, stays: true, want: fine("", 0, lengths("0")), kept: true},
		{name: "chunked", says: []string{head("HTTP/1.1 200 OK", chunked) + "1\r\no\r\n", "1;x=y\r\nk\r\n", "0\r\n\r\n"}, stays: true,
			want: fine("ok", -1, http.Header{}), kept: true},
		{name: "chunked, with trailers", says: []string{head("HTTP/1.1 200 OK", chunked, "Trailer: X-After") + "2\r\nok\r\n0\r\nX-After: 1\r\n\r\n"}, stays: true,
			want: outcome{Status: "200 OK", Header: http.Header{}, Body: "ok", Length: -1, Trailer: http.Header{"X-After": {"1"}}}, kept: true},
		{name: "chunked, with endless trailers", says: []string{head("HTTP/1.1 200 OK", chunked) + "2\r\nok\r\n0\r\n" + strings.Repeat("X-After: 1\r\n", 2<<10)}, stays: true,
			want: outcome{Status: "200 OK", Header: http.Header{}, Body: "ok", Length: -1, Failed: "body"}},
		{name: "chunked, without its end", says: []string{head("HTTP/1.1 200 OK", chunked) + "2\r\nok\r\n"},
			want: outcome{Status: "200 OK", Header: http.Header{}, Body: "ok", Length: -1, Failed: "body"}},
		{name: "chunked, and nonsense", says: []string{head("HTTP/1.1 200 OK", chunked) + "2\r\nok\r\nzz\r\n"}, stays: true,
			want: outcome{Status: "200 OK", Header: http.Header{}, Body: "ok", Length: -1, Failed: "body"}},
		{name: "until the connection ends", says: []string{head("HTTP/1.1 200 OK") + "o", "k"}, want: fine("ok", -1, http.Header{})},
		{name: "of HTTP/1.0", says: []string{head("HTTP/1.0 200 OK") + "ok"}, want: fine("ok", -1, http.Header{})},
		{name: "of HTTP/1.0, with a length", says: []string{head("HTTP/1.0 200 OK", "Content-Length: 2") + "ok"}, stays: true, want: two},
		{name: "of HTTP/1.0, to be kept", says: []string{head("HTTP/1.0 200 OK", "Content-Length: 2", "Connection: keep-alive") + "ok"}, stays: true,
			want: fine("ok", 2, http.Header{"Content-Length": {"2"}, "Connection": {"keep-alive"}}), kept: true},
		{name: "the last", says: []string{head("HTTP/1.1 200 OK", "Content-Length: 2", "Connection: close") + "ok"}, stays: true, want: two},
		{name: "204", says: []string{head("HTTP/1.1 204 No Content")}, stays: true, want: outcome{Status: "204 No Content", Header: http.Header{}}, kept: true},
		{name: "304, with the length of another", says: []string{head("HTTP/1.1 304 Not Modified", "Content-Length: 5")}, stays: true,
			want: outcome{Status: "304 Not Modified", Header: lengths("5")}, kept: true},
		{name: "to HEAD", method: http.MethodHead, says: []string{head("HTTP/1.1 200 OK", "Content-Length: 5")}, stays: true, want: fine("", 5, lengths("5")), kept: true},
		{name: "to HEAD, the last", method: http.MethodHead, says: []string{head("HTTP/1.1 200 OK", "Connection: close")}, stays: true,
			want: fine("", -1, http.Header{})},
		{name: "behind 100", says: []string{head("HTTP/1.1 100 Continue"), ok}, stays: true, want: two, kept: true},
		{name: "behind 103", says: []string{head("HTTP/1.1 103 Early Hints", "Link: </x>") + ok}, stays: true, want: two, kept: true},
		{name: "behind many", says: []string{strings.Repeat(head("HTTP/1.1 103 Early Hints", "Link: </x>"), 100), ok}, stays: true, want: two, kept: true},
		{name: "behind more than may be", says: []string{strings.Repeat(head("HTTP/1.1 102 Processing"), maxHead/27+1), ok}, stays: true, want: outcome{Failed: "long"}},
		{name: "101", says: []string{head("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: x"), "x"},
			want:    outcome{Status: "101 Switching Protocols", Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}}},
			differs: "nobody asks for another protocol, so that nothing of it is handed out",
			std:     outcome{Status: "101 Switching Protocols", Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}}, Body: "x"}},
		{name: "with more behind it", says: []string{ok + "stray"}, stays: true, want: two},
		{name: "with another behind it", says: []string{ok + ok}, stays: true, want: two},
		{name: "with more behind it, later", says: []string{ok, "stray"}, stays: true, ordered: true, want: two},
		{name: "empty, with more behind it", says: []string{head("HTTP/1.1 204 No Content") + "x"}, stays: true, want: outcome{Status: "204 No Content", Header: http.Header{}}},
		{name: "to HEAD, with a body", method: http.MethodHead, says: []string{ok}, stays: true, want: fine("", 2, lengths("2"))},
		{name: "none", want: outcome{Failed: "head"}},
		{name: "garbage", says: []string{"SSH-2.0-OpenSSH_9.9\r\n"}, stays: true, want: outcome{Failed: "head"}},
		{name: "garbage, without an end", says: []string{strings.Repeat("x", maxHead+1)}, stays: true, want: outcome{Failed: "long"}},
		{name: "half a head", says: []string{"HTTP/1.1 200 OK\r\nContent-Le"}, want: outcome{Failed: "head"}},
		{name: "two lengths", says: []string{head("HTTP/1.1 200 OK", "Content-Length: 2", "Content-Length: 3") + "ok"}, stays: true, want: outcome{Failed: "head"}},
		{name: "a header of 2 MiB", says: []string{head("HTTP/1.1 200 OK", "Content-Length: 2", "X-Long: "+strings.Repeat("x", 2<<20)) + "ok"}, stays: true,
			want: outcome{Failed: "long"}},
		{name: "a body longer than a head may be", says: []string{head("HTTP/1.1 200 OK") + strings.Repeat("x", 2*maxHead)},
			want: fine(strings.Repeat("x", 2*maxHead), -1, http.Header{})},
	}
}

// first responds to the first request of a case, and to all others with "ok".
func (tt *answerCase) first(p *peer) {
	if p.number > 1 {
		echo(p)
		return
	}
	if _, _, more := p.request(); !more {
		return
	}
	if p.write(tt.says...); tt.stays {
		echo(p)
	}
}

// ask returns the outcome of the request of a case.
func (tt *answerCase) ask(w *world, by http.RoundTripper) outcome {
	req := w.request(w.t.Context(), "")
	if tt.method != "" {
		req.Method = tt.method
	}
	resp, err := by.RoundTrip(req)
	return outcomeOf(resp, err)
}

func outcomeOf(resp *http.Response, err error) outcome {
	switch {
	case errors.Is(err, http1.ErrHeaderTooLong), err != nil && strings.Contains(err.Error(), "server response headers exceeded"):
		return outcome{Failed: "long"}
	case err != nil:
		return outcome{Failed: "head"}
	}
	o := outcome{Status: resp.Status, Header: resp.Header, Length: resp.ContentLength}
	body, err := io.ReadAll(resp.Body)
	if o.Body, o.Trailer = string(body), resp.Trailer; err != nil {
		o.Failed = "body"
	}
	_ = resp.Body.Close()
	return o
}

// The outcome of every response is the same as with net/http, and a connection is reused only
// after a complete response that permits it.
func TestAnswers(t *testing.T) {
	for _, tt := range answerCases() {
		t.Run(tt.name, func(t *testing.T) {
			on := onBoth
			if tt.ordered {
				on = inMemory
			}
			on(t, func(w *world) {
				w.serve(tt.first)
				if diff := cmp.Diff(tt.ask(w, w.http1), tt.want); diff != "" {
					w.t.Errorf("the answer (-got +want):\n%s", diff)
				}
				w.settle(time.Millisecond)
				w.wantNext(tt.kept)
			})
		})
	}
}

// wantNext makes another request, which must not be affected by the previous one.
func (w *world) wantNext(kept bool) {
	w.t.Helper()
	w.want("next", "next")
	if want := map[bool]int32{true: 1, false: 2}[kept]; w.served.Load() != want {
		w.t.Errorf("there were %d connections, want %d", w.served.Load(), want)
	}
}

func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	for _, tt := range answerCases() {
		t.Run(tt.name, func(t *testing.T) {
			inMemory(t, func(w *world) {
				w.serve(tt.first)
				want := tt.want
				if tt.differs != "" {
					want = tt.std
				}
				if diff := cmp.Diff(tt.ask(w, w.std), want); diff != "" {
					w.t.Errorf("net/http's answer (-got +want):\n%s", diff)
				}
			})
		})
	}
}

// After a switch of protocols the connection is not reused, even if the server continues with
// HTTP.
func TestSwitchedConnectionIsNotKept(t *testing.T) {
	onBoth(t, func(w *world) {
		tt := answerCase{says: []string{head("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: x")}, stays: true}
		w.serve(tt.first)
		if got := tt.ask(w, w.http1); got.Status != "101 Switching Protocols" || got.Failed != "" {
			w.t.Errorf("the answer is %+v", got)
		}
		w.wantNext(false)
	})
}
