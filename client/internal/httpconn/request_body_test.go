// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
)

// posted returns a request with the RequestBody as its body.
func posted(t *testing.T, p *RequestBody) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://b.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.setOn(req)
	return req
}

func opened(t *testing.T, calls *session.Calls) *session.Call {
	t.Helper()
	call, err := calls.Open("tools/call")
	if err != nil {
		t.Fatal(err)
	}
	call.Hold()
	return call
}

// A RequestBody is sent as soon as it is read, and not when it is set on a request. Its
// length is known before.
func TestRequestBodyIsSentWhenRead(t *testing.T) {
	var calls session.Calls
	for _, call := range []*session.Call{nil, opened(t, &calls)} {
		p := &RequestBody{Msg: jsonrpc.Pieces{[]byte("message")}, Call: call}
		req := posted(t, p)
		if p.Sent.Load() || req.ContentLength != 7 {
			t.Errorf("before: left %v, length %d; want false, 7", p.Sent.Load(), req.ContentLength)
		}
		got, err := io.ReadAll(req.Body)
		if string(got) != "message" || err != nil || !p.Sent.Load() {
			t.Errorf("read %q, %v, left %v; want the message", got, err, p.Sent.Load())
		}
		if call != nil && call.Withdraw(session.Terminal{}) {
			t.Error("a call that has left was taken back")
		}
	}
}

// Reading a RequestBody returns nothing if its call was withdrawn, however it is
// copied.
func TestRequestBodyOfAWithdrawnCall(t *testing.T) {
	var calls session.Calls
	p := &RequestBody{Msg: jsonrpc.Pieces{[]byte("message")}, Call: opened(t, &calls)}
	req := posted(t, p)
	if !p.Call.Withdraw(session.Terminal{Err: io.EOF}) {
		t.Fatal("a call that has not left was not taken back")
	}
	again, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []io.ReadCloser{req.Body, again} {
		var out strings.Builder
		if _, err := io.Copy(&out, io.NopCloser(body)); !errors.Is(err, errWithdrawn) || out.Len() > 0 || p.Sent.Load() {
			t.Errorf("read %q, %v, left %v; want %v", out.String(), err, p.Sent.Load(), errWithdrawn)
		}
	}
}

// A body that has begun is read to its end, whatever happens to the call: half a body
// would cost other calls their connection. Another copy of it is not begun.
func TestRequestBodyOfACallThatEndsMeanwhile(t *testing.T) {
	var calls session.Calls
	p := &RequestBody{Msg: jsonrpc.Pieces{[]byte("message")}, Call: opened(t, &calls)}
	req := posted(t, p)
	head := make([]byte, 3)
	if _, err := io.ReadFull(req.Body, head); err != nil {
		t.Fatal(err)
	}
	p.Call.Finish(session.Terminal{Err: io.EOF})
	rest, err := io.ReadAll(req.Body)
	if string(head)+string(rest) != "message" || err != nil {
		t.Errorf("read %q and %q, %v; want the message", head, rest, err)
	}
	again, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(again); len(got) > 0 || !errors.Is(err, errWithdrawn) {
		t.Errorf("again: read %q, %v; want %v", got, err, errWithdrawn)
	}
}

// net/http may resend a body that a server refused to process.
func TestRequestBodyTwice(t *testing.T) {
	var calls session.Calls
	p := &RequestBody{Msg: jsonrpc.Pieces{[]byte("message")}, Call: opened(t, &calls)}
	req := posted(t, p)
	for range 2 {
		body, err := req.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); string(got) != "message" || err != nil {
			t.Errorf("read %q, %v; want the message", got, err)
		}
	}
}
