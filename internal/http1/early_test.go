// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// large does not fit into any buffer.
var large = strings.Repeat("0123456789abcdef", 1<<20)

// refusal is the response to a request that is too large, without its last byte. It is longer
// than what is read together with the header.
var refusal = fmt.Sprintf("HTTP/1.1 413 Content Too Large\r\nContent-Length: %d\r\n\r\n", refused) + strings.Repeat("x", refused-1)

const refused = 20000

// header reads the header of a request.
func (p *peer) header() (more bool) {
	line := "x"
	for more = true; more && line != "\r\n"; {
		var err error
		line, err = p.in.ReadString('\n')
		more = err == nil
	}
	return more
}

// A server may respond before it has read the request. The response is received, whatever the
// server does with the rest of the request.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	rest := func(p *peer) { _, _ = io.CopyN(io.Discard, p.in, int64(len(large))) }
	on := func(in ...func(*testing.T, func(*world))) []func(*testing.T, func(*world)) { return in }
	for _, tt := range []struct {
		name string
		then func(p *peer)
		wait time.Duration // the client's delay before it reads the rest of the response
		kept bool
		on   []func(*testing.T, func(*world))
	}{
		{name: "and nothing more is read", then: func(p *peer) { p.write("!"); <-p.w.over }, on: on(inMemory, onTCP)},
		{name: "and the connection is closed", then: func(p *peer) { p.write("!"); _ = p.Close() }, wait: time.Millisecond, on: on(inMemory, onTCP)},
		{name: "and the rest is read first", then: func(p *peer) { rest(p); p.write("!") }, kept: true, on: on(inMemory, onTCP)},
		{name: "and the rest is read soon", then: func(p *peer) { p.write("!"); p.w.settle(40 * time.Millisecond); rest(p) }, kept: true, on: on(inMemory)},
		{name: "and the rest is read too late", then: func(p *peer) { p.write("!"); p.w.settle(60 * time.Millisecond); rest(p) }, on: on(inMemory)},
	} {
		for i, in := range tt.on {
			t.Run([]string{"memory", "tcp"}[i]+", "+tt.name, func(t *testing.T) {
				in(t, func(w *world) {
					w.serve(func(p *peer) {
						if p.number == 1 && p.header() {
							p.write(refusal)
							tt.then(p)
						}
						echo(p)
					})
					w.wantRefusal(tt.wait)
					w.wantNext(tt.kept)
				})
			})
		}
	}
}

func (w *world) wantRefusal(wait time.Duration) {
	w.t.Helper()
	resp, err := w.http1.RoundTrip(w.request(w.t.Context(), large))
	if err != nil {
		w.t.Fatal(err)
	}
	w.settle(wait)
	body, err := read(resp, nil)
	if resp.StatusCode != http.StatusRequestEntityTooLarge || len(body) != refused || err != nil {
		w.t.Errorf("the answer is %s with %d bytes, %v; want 413 with %d", resp.Status, len(body), err, refused)
	}
}

// If the server resets the connection, the response is received or not, but the client never
// blocks.
func TestResetBeforeTheRequestIsRead(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(func(p *peer) {
			if p.number > 1 {
				echo(p)
				return
			}
			if p.header() {
				p.write(refusal)
				p.reset()
			}
		})
		if body, err := w.call(large); err == nil {
			w.t.Errorf("the answer has %d bytes, and looks whole", len(body))
		}
		w.wantNext(false)
	})
}

// The response of a server that responds and closes immediately is received, although nothing
// of the request can be written. The request is not repeated.
func TestAnswerBeforeTheRequestIsSent(t *testing.T) {
	inMemory(t, func(w *world) {
		w.serve(func(p *peer) { p.write(ok) })
		dial := w.http1.Dial
		w.http1.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			w.settle(time.Millisecond) // until the response has been sent
			return c, err
		}
		for _, body := range []string{"", "small", strings.Repeat("large", 1<<20)} {
			before := int(w.served.Load())
			w.want(body, "ok")
			w.wantConnections(before + 1)
		}
	})
}
