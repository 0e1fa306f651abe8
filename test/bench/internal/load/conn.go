// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// patience is the time limit of a response: far longer than any takes, so that a hanging
// run ends with an error.
const patience = 60 * time.Second

// Conn is a persistent connection that one client uses at a time.
type Conn struct {
	addr  string
	local string // local address; empty means any
	nc    net.Conn
	r     *bufio.Reader
	body  []byte
}

// Reply is a response. Its body is valid until the next exchange.
type Reply struct {
	Status  int
	Session string // the id of a new session
	Stream  bool   // the response is an event stream
	Body    []byte
}

// readBuffer is large enough to read a large response in few reads.
const readBuffer = 64 << 10

// Dial connects to host:port, from the address local unless that is empty: the number of
// ports per address is limited, and a bench may need more.
func Dial(ctx context.Context, addr, local string) (*Conn, error) {
	c := &Conn{addr: addr, local: local}
	return c, c.dial(ctx, readBuffer)
}

func (c *Conn) dial(ctx context.Context, buffer int) error {
	d := net.Dialer{Timeout: patience}
	if c.local != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.local)}
	}
	nc, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.nc, c.r = nc, bufio.NewReaderSize(nc, buffer)
	return nil
}

// Close closes the connection. It may be called more than once.
func (c *Conn) Close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

// Exchange sends a request and reads the whole response. After an error the connection is
// closed, and the next exchange opens a new one.
func (c *Conn) Exchange(ctx context.Context, request []byte) (Reply, error) {
	h, err := c.begin(ctx, request)
	if err != nil {
		c.Close()
		return Reply{}, err
	}
	if err := c.readBody(h); err != nil {
		c.Close()
		return Reply{}, fmt.Errorf("reading the response: %w", err)
	}
	if h.closing {
		c.Close()
	}
	return Reply{Status: h.status, Session: h.session, Stream: h.stream, Body: c.body}, nil
}

// begin sends a request and reads the header of its response.
func (c *Conn) begin(ctx context.Context, request []byte) (head, error) {
	if c.nc == nil {
		if err := c.dial(ctx, readBuffer); err != nil {
			return head{}, err
		}
	}
	if err := c.nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return head{}, err
	}
	if _, err := c.nc.Write(request); err != nil {
		return head{}, fmt.Errorf("sending: %w", err)
	}
	h, err := readHead(c.r)
	if err != nil {
		return h, fmt.Errorf("reading the response header: %w", err)
	}
	return h, nil
}

// head is the parsed header of a response.
type head struct {
	status  int
	length  int // -1 if absent
	chunked bool
	closing bool
	stream  bool
	session string
}

var errHead = errors.New("not an HTTP/1.1 response")

func readHead(r *bufio.Reader) (head, error) {
	h := head{length: -1}
	line, err := readLine(r)
	if err != nil {
		return h, err
	}
	code, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !ok || len(code) < 3 {
		return h, errHead
	}
	if h.status, err = strconv.Atoi(string(code[:3])); err != nil {
		return h, errHead
	}
	for {
		line, err := readLine(r)
		if err != nil || len(line) == 0 {
			return h, err
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return h, errHead
		}
		if err := h.field(name, bytes.TrimSpace(value)); err != nil {
			return h, err
		}
	}
}

// field stores a relevant field. Names are compared by their length first.
func (h *head) field(name, value []byte) error {
	var err error
	switch {
	case is(name, "content-length"):
		h.length, err = strconv.Atoi(string(value))
	case is(name, "transfer-encoding"):
		h.chunked = is(value, "chunked")
	case is(name, "connection"):
		h.closing = is(value, "close")
	case is(name, "content-type"):
		h.stream = bytes.HasPrefix(value, []byte("text/event-stream"))
	case is(name, "mcp-session-id"):
		h.session = string(value)
	}
	return err
}

func is(b []byte, word string) bool {
	return len(b) == len(word) && bytes.EqualFold(b, []byte(word))
}

// readLine returns a line without its terminator, valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// readBody reads the body of a response into the buffer.
func (c *Conn) readBody(h head) error {
	c.body = c.body[:0]
	switch {
	case h.chunked:
		return c.readChunks()
	case h.length >= 0:
		return c.readMore(h.length)
	case h.status == 202 || h.status == 204:
		return nil
	}
	return errors.New("response without a length")
}

// readMore appends n bytes to the buffer.
func (c *Conn) readMore(n int) error {
	at := len(c.body)
	if cap(c.body) < at+n {
		c.body = append(make([]byte, 0, max(2*cap(c.body), at+n)), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.r, c.body[at:])
	return err
}

func (c *Conn) readChunks() error {
	for {
		line, err := readLine(c.r)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk size: %w", err)
		}
		if err := c.readMore(int(n)); err != nil {
			return err
		}
		if end, err := readLine(c.r); err != nil || len(end) != 0 {
			return errors.Join(errors.New("chunk of another size, or a trailer"), err)
		}
		if n == 0 {
			return nil
		}
	}
}
