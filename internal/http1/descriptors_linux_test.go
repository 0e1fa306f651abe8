// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// descriptors returns the number of open descriptors of this process, without the one for
// counting.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all) - 1
}

// No descriptor is leaked, however an exchange fails.
func TestNoDescriptorIsLeft(t *testing.T) {
	breaks := map[string]func(p *peer){
		"at once":     func(*peer) {},
		"reset":       (*peer).reset,
		"garbage":     func(p *peer) { p.request(); p.write("garbage\r\n\r\n"); p.gone() },
		"half a head": func(p *peer) { p.request(); p.write("HTTP/1.1 2") },
		"half a body": func(p *peer) { p.request(); p.write(head("HTTP/1.1 200 OK", "Content-Length: 5") + "ab") },
		"the last": func(p *peer) {
			p.request()
			p.write(head("HTTP/1.1 200 OK", "Content-Length: 2", "Connection: close") + "ab")
			p.gone()
		},
		"strays":    func(p *peer) { p.request(); p.write(ok + "stray"); p.gone() },
		"none":      echo,
		"no end":    func(p *peer) { p.request(); p.write(head("HTTP/1.1 200 OK") + strings.Repeat("x", 9)); p.gone() },
		"too early": func(p *peer) { p.header(); p.write(refusal + "!") },
	}
	for name, script := range breaks {
		t.Run(name, func(t *testing.T) {
			onTCP(t, func(w *world) {
				w.serve(script)
				dial, before := w.http1.Dial, 0
				var held []net.Conn // keeps the garbage collector from closing them
				w.http1.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := dial(ctx, network, address)
					held = append(held, c)
					return c, err
				}
				for i := range 40 {
					w.breakOne([]string{"", "small", large[:1<<20]}[i%3])
					if i == 9 { // everything that is opened once is open now
						w.http1.CloseIdleConnections()
						before = descriptors(w.t)
					}
				}
				w.http1.CloseIdleConnections()
				wait(w, func() bool { return descriptors(w.t) <= before+4 })
				if len(held) < 10 {
					w.t.Errorf("only %d connections were made", len(held))
				}
			})
		})
	}
}

// breakOne makes a request, reads a part of the response and closes it.
func (w *world) breakOne(body string) {
	resp, err := w.http1.RoundTrip(w.request(w.t.Context(), body))
	if err != nil {
		return
	}
	_, _ = resp.Body.Read(make([]byte, 5))
	_ = resp.Body.Close()
}

// A connection that the server has closed is not used for a POST, and is closed with the next
// request.
func TestClosedSocketIsNotUsed(t *testing.T) {
	onTCP(t, func(w *world) {
		w.serve(func(p *peer) { echo1(p) })
		dial := w.http1.Dial
		var last net.Conn
		w.http1.Dial = func(ctx context.Context, network, address string) (c net.Conn, err error) {
			last, err = dial(ctx, network, address)
			return last, err
		}
		before := 0
		for i := range 20 {
			w.want("pay", "pay")
			untilReadable(w.t, last)
			if i == 1 {
				before = descriptors(w.t)
			}
		}
		wait(w, func() bool { return descriptors(w.t) <= before })
	})
}

// A connection on which data arrived after a response is not used again.
func TestLaterDataOnSocket(t *testing.T) {
	onTCP(t, func(w *world) {
		var last net.Conn
		dial := w.http1.Dial
		w.http1.Dial = func(ctx context.Context, network, address string) (c net.Conn, err error) {
			last, err = dial(ctx, network, address)
			return last, err
		}
		read := make(chan struct{})
		w.serve(func(p *peer) {
			if p.number == 1 {
				p.request()
				p.write(ok)
				<-read
				p.write("stray")
			}
			echo(p)
		})
		w.want("", "ok")
		close(read)
		untilReadable(w.t, last)
		w.wantNext(false)
	})
}

// untilReadable returns when data or the end can be read.
func untilReadable(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn() //nolint:forcetypeassert // dialed with TCP
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return !errors.Is(err, syscall.EAGAIN)
	})
	if err != nil {
		t.Fatal(err)
	}
}
