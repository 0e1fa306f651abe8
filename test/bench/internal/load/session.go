// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
)

// OpenSession performs the legacy handshake and returns the session's id.
func OpenSession(ctx context.Context, conn *Conn, t Target) (string, error) {
	id, err := Initialize(ctx, conn, t)
	if err != nil {
		return "", err
	}
	return id, Initialized(ctx, conn, t, id)
}

// Initialize performs the first half of the handshake, with FirstID.
func Initialize(ctx context.Context, conn *Conn, t Target) (string, error) {
	o, err := NewOpener(conn, t)
	if err != nil {
		return "", err
	}
	if _, err := o.Call(ctx); err != nil {
		return "", err
	}
	return o.Sessions[0], nil
}

// Opener is a [Caller] that repeats the first half of the handshake.
type Opener struct {
	// Sessions are the ids of the opened sessions.
	Sessions []string

	conn    *Conn
	request []byte
}

// NewOpener makes an Opener for a connection.
func NewOpener(conn *Conn, t Target) (*Opener, error) {
	r, err := newRequest(t, "", Call{
		Method: "initialize",
		Params: `"protocolVersion":"` + canned.LegacyVersion + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}`,
	})
	if err != nil {
		return nil, err
	}
	return &Opener{conn: conn, request: r.bytes}, nil
}

// Call opens a session.
func (o *Opener) Call(ctx context.Context) (int, error) {
	reply, err := o.conn.Exchange(ctx, o.request)
	switch {
	case err != nil:
		return 0, fmt.Errorf("initialize: %w", err)
	case reply.Status != 200:
		return 0, fmt.Errorf("initialize: status %d: %.300s", reply.Status, reply.Body)
	case reply.Session == "":
		return 0, errors.New("initialize: no session")
	}
	o.Sessions = append(o.Sessions, reply.Session)
	return 0, nil
}

// Initialized performs the second half of the handshake.
func Initialized(ctx context.Context, conn *Conn, t Target, session string) error {
	u, err := url.Parse(t.URL)
	if err != nil {
		return err
	}
	reply, err := conn.Exchange(ctx, notification(u, t, session, "notifications/initialized"))
	if err == nil && reply.Status != 202 {
		err = fmt.Errorf("initialized: status %d: %.300s", reply.Status, reply.Body)
	}
	return err
}

// CloseSession ends a session.
func CloseSession(ctx context.Context, conn *Conn, t Target, session string) error {
	b, err := bare("DELETE", t, session)
	if err != nil {
		return err
	}
	reply, err := conn.Exchange(ctx, b)
	if err == nil && reply.Status != 200 && reply.Status != 204 {
		err = fmt.Errorf("ending a session: status %d: %.300s", reply.Status, reply.Body)
	}
	return err
}

// Resume makes a client for a session that is already open, for another call.
func Resume(ctx context.Context, t Target, session string, call Call, judge Judge) (*Client, error) {
	addr, err := hostOf(t.URL)
	if err != nil {
		return nil, err
	}
	conn, err := Dial(ctx, addr, t.Local)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, target: t, session: session, id: FirstID}
	if err := c.Add(ctx, call, judge); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Visit opens a session on a connection, makes calls in it, and ends it.
func Visit(ctx context.Context, conn *Conn, t Target, calls []Call, judge Judge) error {
	c := &Client{conn: conn, target: t, id: FirstID}
	var err error
	if !t.modern() {
		if c.session, err = OpenSession(ctx, conn, t); err != nil {
			return err
		}
	}
	for _, call := range calls {
		if err := c.Add(ctx, call, judge); err != nil {
			return err
		}
	}
	if t.modern() {
		return nil
	}
	return CloseSession(ctx, conn, t, c.session)
}

// Stream is a session's open GET.
type Stream struct{ conn *Conn }

// OpenStream opens the GET stream of a session on a connection of its own.
func OpenStream(ctx context.Context, t Target, session string) (*Stream, error) {
	addr, err := hostOf(t.URL)
	if err != nil {
		return nil, err
	}
	b, err := bare("GET", t, session)
	if err != nil {
		return nil, err
	}
	// There are very many idle streams, so the buffer is small.
	conn := &Conn{addr: addr, local: t.Local}
	if err := conn.dial(ctx, smallBuffer); err != nil {
		return nil, err
	}
	h, err := conn.begin(ctx, b)
	if err == nil && (h.status != 200 || !h.stream) {
		err = fmt.Errorf("opening a stream: status %d", h.status)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Stream{conn}, nil
}

// smallBuffer has space for a response header.
const smallBuffer = 1 << 10

// Close closes the stream.
func (s *Stream) Close() { s.conn.Close() }
