// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// connection is one to a backend. Each write has its own deadline, so that a peer that
// does not read cannot keep a request for ever.
//
// The head of a request waits here for the body, and both go out at once. net/http
// writes it by itself, in case that a body blocks which it does not know; ours are in
// memory, and one write is a quarter of the system calls of a small request.
//
// It has one writer at a time. Under TLS heads are not seen, and nothing waits.
type connection struct {
	net.Conn
	write time.Duration
	held  *[]byte // the head that waits; nil for none
	used  bool    // something has been written
}

// errUnsent is in the error of a request of which nothing was sent, on a connection that
// had served before and may have been closed since: another one may serve.
var errUnsent = errors.New("nothing was sent")

// pieceSize is how much of a request is written at a time.
const pieceSize = 32 << 10

// pieces have room for what is written at a time: the front of a request, as a rule all.
//
//nolint:gochecknoglobals // a pool is shared by nature
var pieces = sync.Pool{New: func() any { b := make([]byte, 0, pieceSize); return &b }}

// Write writes p behind the head that waits, unless p is such a head.
func (c *connection) Write(p []byte) (int, error) {
	if c.held == nil {
		if !isHead(p) {
			return c.send(p)
		}
		c.held, _ = pieces.Get().(*[]byte)
		*c.held = append(*c.held, p...)
		return len(p), nil
	}
	n, err := c.ReadFrom(bytes.NewReader(p))
	return int(n), err
}

// ReadFrom writes a body behind the head that waits. Where the body fails before it has
// begun, nothing of the request goes out.
func (c *connection) ReadFrom(body io.Reader) (n int64, err error) {
	room := c.held
	if c.held = nil; room == nil {
		room, _ = pieces.Get().(*[]byte)
	}
	piece := *room
	defer func() {
		*room = piece[:0]
		pieces.Put(room)
	}()
	for behind := len(piece) > 0; err == nil; behind = false {
		begin := len(piece)
		for err == nil && len(piece) < cap(piece) {
			var m int
			m, err = body.Read(piece[len(piece):cap(piece)])
			piece = piece[:len(piece)+m]
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		sent, failed := c.sendPiece(piece, behind)
		n += int64(max(0, sent-begin))
		if failed != nil {
			return n, failed
		}
		piece = piece[:0]
	}
	return n, nil
}

// sendPiece writes a piece, behind which a head may stand.
func (c *connection) sendPiece(p []byte, first bool) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	again := c.used
	n, err = c.send(p)
	if err != nil && n == 0 && first && again {
		err = fmt.Errorf("%w: %w", errUnsent, err)
	}
	return n, err
}

// send writes p within the deadline.
func (c *connection) send(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
		return 0, err
	}
	c.used = true
	return c.Conn.Write(p)
}

// isHead reports whether p is the head of a POST, and all of it, that a body follows
// without an answer before it.
func isHead(p []byte) bool {
	if !bytes.HasPrefix(p, []byte("POST ")) || !bytes.HasSuffix(p, []byte("\r\n\r\n")) || len(p) > pieceSize {
		return false
	}
	_, length, ok := bytes.Cut(p, []byte("\r\nContent-Length: "))
	return ok && length[0] != '0' && !bytes.Contains(p, []byte("\r\nExpect:")) &&
		bytes.Index(p, []byte("\r\n\r\n")) == len(p)-len("\r\n\r\n")
}
