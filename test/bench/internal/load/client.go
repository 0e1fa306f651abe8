// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// Client makes the same calls repeatedly, on one connection, and with a session if the
// target has sessions. It must not be used concurrently.
type Client struct {
	conn    *Conn
	target  Target
	session string
	steps   []step
	turns   bool // each call is one step, in turn
	next    int
	begun   head
	id      int64
	digits  []byte
}

// step is one request of a call, and its first response.
type step struct {
	request *request
	answer  *answer
}

// Judge returns an error if the result of a call is wrong.
type Judge func(result []byte) error

// NewClient connects, opens a session if the target has sessions, makes the call once and
// judges the result.
func NewClient(ctx context.Context, t Target, call Call, judge Judge) (*Client, error) {
	c, err := open(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := c.Add(ctx, call, judge); err != nil {
		c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// open returns a client without calls.
func open(ctx context.Context, t Target) (*Client, error) {
	addr, err := hostOf(t.URL)
	if err != nil {
		return nil, err
	}
	conn, err := Dial(ctx, addr, t.Local)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, target: t, id: FirstID}
	if t.modern() {
		return c, nil
	}
	if c.session, err = OpenSession(ctx, conn, t); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Add appends a request that each Call makes too.
func (c *Client) Add(ctx context.Context, call Call, judge Judge) error {
	r, err := newRequest(c.target, c.session, call)
	if err != nil {
		return err
	}
	message, _, err := c.exchange(ctx, r)
	if err != nil {
		return fmt.Errorf("%s %s: %w", call.Method, call.Name, err)
	}
	a, err := learn(message, c.digits, judge)
	if err != nil {
		return fmt.Errorf("%s %s: %w", call.Method, call.Name, err)
	}
	c.steps = append(c.steps, step{r, a})
	return nil
}

// exchange makes one request with the next id.
func (c *Client) exchange(ctx context.Context, r *request) (message []byte, progress int, err error) {
	c.id++
	c.digits = strconv.AppendInt(c.digits[:0], c.id, 10)
	reply, err := c.conn.Exchange(ctx, r.with(c.digits))
	if err != nil {
		return nil, 0, err
	}
	if reply.Status != 200 {
		return nil, 0, fmt.Errorf("status %d: %.300s", reply.Status, reply.Body)
	}
	if reply.Stream {
		return last(reply.Body)
	}
	return reply.Body, 0, nil
}

// Call makes the call once more. It returns the number of progress notifications before the
// response.
func (c *Client) Call(ctx context.Context) (progress int, err error) {
	for _, s := range c.due() {
		message, n, err := c.exchange(ctx, s.request)
		if err != nil {
			return progress, err
		}
		if err := s.answer.check(message, c.digits); err != nil {
			return progress, err
		}
		progress += n
	}
	return progress, nil
}

// TakeTurns makes each Call send only one of the requests, in turn, instead of all.
func (c *Client) TakeTurns() { c.turns = true }

// due returns the requests of the next call.
func (c *Client) due() []step {
	if !c.turns {
		return c.steps
	}
	at := c.next % len(c.steps)
	c.next++
	return c.steps[at : at+1]
}

// Begin sends the first request and reads the header of its response. Of the rest, only
// what the system buffers is received; the remainder stays where it is.
func (c *Client) Begin(ctx context.Context) error {
	if tcp, ok := c.conn.nc.(*net.TCPConn); ok {
		if err := tcp.SetReadBuffer(readBuffer); err != nil {
			return err
		}
	}
	c.id++
	c.digits = strconv.AppendInt(c.digits[:0], c.id, 10)
	h, err := c.conn.begin(ctx, c.steps[0].request.with(c.digits))
	c.begun = h
	return err
}

// Finish reads the rest of the response that Begin started, and checks it.
func (c *Client) Finish() error {
	if err := c.conn.readBody(c.begun); err != nil {
		return err
	}
	message := c.conn.body
	if c.begun.stream {
		var err error
		if message, _, err = last(message); err != nil {
			return err
		}
	}
	return c.steps[0].answer.check(message, c.digits)
}

// Close ends the session and the connection.
func (c *Client) Close(ctx context.Context) {
	if c.session != "" {
		// A server that has ended has no session to close.
		_ = CloseSession(ctx, c.conn, c.target, c.session)
	}
	c.conn.Close()
}

// Leave closes the connection and leaves the session open.
func (c *Client) Leave() { c.conn.Close() }
