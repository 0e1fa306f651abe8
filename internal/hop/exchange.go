// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package hop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// exchange is a request and its answer, and the body of that.
type exchange struct {
	*conn
	ctx     context.Context //nolint:containedctx // the request's, which ends the exchange
	stay    func() bool     // has the end of ctx not close the connection, unless it is too late
	in      *bufio.Reader   // of who reads, until the answer was read to its end
	body    io.Reader
	err     error   // of the last Read
	last    bool    // no other exchange may follow
	sending *sender // of what of the request was not taken at once, nil for nothing
	over    atomic.Bool
}

// exchange sends the request and returns the answer, whose body ends the exchange.
func (c *conn) exchange(req *http.Request) (*http.Response, error) {
	x := &exchange{conn: c, ctx: req.Context(), in: c.lend()}
	x.stay = whenOver(req.Context(), c.cut)
	err := x.send(req)
	if err != nil {
		return nil, x.fail(err)
	}
	resp, err := x.receive(req)
	if err != nil {
		return nil, x.fail(err)
	}
	if x.last = resp.Close; resp.Body == http.NoBody {
		x.end(!x.last)
		return resp, nil
	}
	x.body, resp.Body = resp.Body, x
	return resp, nil
}

// whenOver has f called when ctx ends. Contexts that call a function without a goroutine
// of its own do that by a method; to close a connection is short enough for it.
func whenOver(ctx context.Context, f func()) (stop func() bool) {
	if own, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return own.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// receive reads the head of the answer. Provisional ones before it say nothing that
// anybody waits for.
func (x *exchange) receive(req *http.Request) (*http.Response, error) {
	x.head, x.heard = x.of.MaxHeaderBytes, false
	for {
		resp, err := http.ReadResponse(x.in, req)
		switch {
		case err != nil && x.head == 0:
			return nil, ErrHeaderTooLong // or what became of a line that was cut there
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			resp.Close = true // nobody has asked for another protocol
		case resp.StatusCode/100 == 1:
			continue
		}
		x.head = -1
		x.heed(resp.Header)
		return resp, nil
	}
}

// Read reads the body.
func (x *exchange) Read(p []byte) (int, error) {
	switch {
	case x.err != nil:
		return 0, x.err
	case x.over.Load():
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := x.body.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		x.end(!x.last)
	default:
		err = x.fail(err)
	}
	x.err = err
	return n, err
}

// Close lets go of the answer. If it was not read to its end, so is the connection.
func (x *exchange) Close() error {
	x.end(false)
	return nil
}

// fail ends the exchange and says why: because of the request's context, if that has
// ended, or else of what was wrong with sending the request.
func (x *exchange) fail(err error) error {
	x.end(false)
	if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	if failed := x.sending.failure(); failed != nil {
		return fmt.Errorf("%w (%w)", failed, err)
	}
	return err
}

// end ends the exchange, once. The connection is kept if the answer is whole, which only
// who has read it can say, and nobody is about to close it.
func (x *exchange) end(whole bool) {
	if x.over.Swap(true) {
		return
	}
	keep := x.stay() && whole && x.sending.isDone(lateWrite) && x.in.Buffered() == 0
	if whole {
		giveBack(x.in)
	}
	if !keep || !x.of.idle.put(x.conn) {
		x.conn.Close()
	}
}

// lateWrite is how long the end of a request may be written behind the end of its answer.
const lateWrite = 50 * time.Millisecond
