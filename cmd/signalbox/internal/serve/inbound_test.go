// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// isOpen reports whether the server has not closed the connection.
func isOpen(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := io.Copy(io.Discard, c)
	timeout, ok := err.(net.Error) //nolint:errorlint // the error of the connection itself
	return ok && timeout.Timeout()
}

// A client has limits.headerRead to send a header, with either protocol.
func TestHeaderDeadline(t *testing.T) {
	t.Parallel()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for _, tt := range []struct {
		name  string
		first string
		each  func(*rawHTTP2) // called each second
	}{
		{"nothing", "", nil},
		{"HTTP/1.1 without its end", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n", nil},
		{"a preface without its end", preface[:20], nil},
		{"the first line of a preface", preface[:14], nil},
		{"settings", preface, func(c *rawHTTP2) { c.frame(frameSettings, 0, 0, nil) }},
		{"pings", preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00", func(c *rawHTTP2) { c.frame(framePing, 0, 0, make([]byte, 8)) }},
		{"a header without its end", preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x03\x01\x00\x00\x00\x00\x01\x82\x86\x84", nil},
		{
			"empty continuations", preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x03\x01\x00\x00\x00\x00\x01\x82\x86\x84",
			func(c *rawHTTP2) { c.frame(frameContinuation, 0, 1, nil) },
		},
		{
			"the last frame of a header, a byte each second", preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x80\x01\x05\x00\x00\x00\x01\x82\x86\x84",
			func(c *rawHTTP2) { c.write([]byte{0}) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onMemory(t, waiting(new(atomic.Int64)), func(s *site) {
				conn, err := s.net.Dial(s.t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				c := &rawHTTP2{Conn: conn, t: s.t}
				c.write([]byte(tt.first))
				for range 4 {
					pass(time.Second)
					if tt.each != nil {
						tt.each(c)
					}
				}
				if !isOpen(c) {
					t.Error("the connection was closed before its time")
				}
				pass(2 * time.Second)
				if isOpen(c) {
					t.Error("the connection is open after 6s")
				}
			})
		})
	}
}

// Each header of a connection has its own time limit. A connection without requests is kept as
// long as with HTTP/1.1.
func TestHeaderDeadlineOfLaterRequests(t *testing.T) {
	t.Parallel()
	begin := func(s *site) *rawHTTP2 {
		c := s.dial(false)
		c.headers(1, flagEnd, http.MethodGet, "/healthz", nil)
		pass(time.Minute)
		if !isOpen(c) {
			t.Error("a connection that waits for its next request was closed")
		}
		return c
	}
	onMemory(t, waiting(new(atomic.Int64)), func(s *site) {
		c := begin(s)
		defer c.Close()
		c.headers(3, flagEnd, http.MethodGet, "/healthz", nil)
		pass(idleTimeout - time.Second)
		if !isOpen(c) {
			t.Error("a connection was closed that has been idle for less than its time")
		}
		pass(10 * time.Second)
		if isOpen(c) {
			t.Error("a connection was kept that has been idle for its time")
		}
	})
	onMemory(t, waiting(new(atomic.Int64)), func(s *site) {
		c := begin(s)
		defer c.Close()
		c.frame(frameHeaders, flagEnd, 3, requestHead(http.MethodGet, "/healthz"))
		pass(4 * time.Second)
		if !isOpen(c) {
			t.Error("the connection was closed before its time")
		}
		pass(2 * time.Second)
		if isOpen(c) {
			t.Error("a header without its end is waited for after 6s")
		}
	})
}

// statusCodes sends HTTP/1 requests, each after the response to the previous one, and returns
// the status codes of all responses and whether the server has closed the connection.
func (s *site) statusCodes(texts []string) (statuses []int, closed bool) {
	s.t.Helper()
	c, err := s.net.Dial(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, text := range texts {
		for _, b := range []byte(text) { // one at a time: matches may be split at any byte
			if _, err := c.Write([]byte{b}); err != nil {
				break
			}
		}
		for {
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			resp, err := http.ReadResponse(r, nil)
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // the error of the connection itself
				break
			}
			if err != nil {
				return statuses, true
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			statuses = append(statuses, resp.StatusCode)
		}
	}
	return statuses, false
}

// RFC 9112, 6.1: "Regardless, the server MUST close the connection after responding to such a
// request to avoid the potential attacks."
func TestAmbiguousLengthEndsConnection(t *testing.T) {
	t.Parallel()
	const (
		plain  = "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
		chunks = "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
		both   = "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n%s: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
	)
	for _, tt := range []struct {
		name   string
		texts  []string
		served int
		closed bool
	}{
		{"length", []string{plain, plain + plain}, 3, false},
		{"chunks", []string{chunks, chunks + chunks}, 3, false},
		{"either", []string{plain, chunks, plain + chunks, chunks}, 5, false},
		{"both", []string{fmt.Sprintf(both, "Content-Length") + plain}, 1, true},
		{"both, spelled otherwise", []string{fmt.Sprintf(both, "cOnTeNt-LeNgTh") + plain}, 1, true},
		{"both, with LF alone", []string{strings.ReplaceAll(fmt.Sprintf(both, "Content-Length"), "\r\nContent", "\nContent") + plain}, 1, true},
		{"both, the length last", []string{"POST /nowhere HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + plain}, 1, true},
		{"both, behind others", []string{plain, chunks, plain, fmt.Sprintf(both, "Content-Length") + plain}, 4, true},
		{"HTTP/1.0", []string{"POST /nowhere HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}" + plain}, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onMemory(t, waiting(new(atomic.Int64)), func(s *site) {
				got, closed := s.statusCodes(tt.texts)
				if len(got) != tt.served || closed != tt.closed {
					t.Errorf("%d responses (%v), closed %v; want %d, %v", len(got), got, closed, tt.served, tt.closed)
				}
			})
		})
	}
}
