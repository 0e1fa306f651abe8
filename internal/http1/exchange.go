// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// exchange is a request and its response, and the body of the response.
type exchange struct {
	*conn
	ctx       context.Context //nolint:containedctx // the request's; ends the exchange
	cancelCut func() bool     // cancels closing the connection at the end of ctx; false if it is too late
	in        *bufio.Reader   // used until the response is complete
	body      io.Reader
	err       error      // of the last Read
	last      bool       // the connection must not be reused
	sent      chan error // receives the result of the goroutine that writes the request; nil if there is none
	ended     atomic.Bool
}

// readers is the pool of the exchanges' readers. The buffer is sufficient to read most
// responses at once. An idle connection has none.
//
//nolint:gochecknoglobals // a pool is shared by all connections
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 16<<10) }}

// exchange sends the request and returns the response. Reading or closing its body ends the
// exchange.
func (c *conn) exchange(req *http.Request) (*http.Response, error) {
	in, _ := readers.Get().(*bufio.Reader)
	in.Reset((*incoming)(c))
	x := &exchange{conn: c, ctx: req.Context(), in: in}
	x.cancelCut = context.AfterFunc(req.Context(), c.cut)
	if err := x.send(req); err != nil {
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

// receive reads the header of the response. It ignores provisional responses.
func (x *exchange) receive(req *http.Request) (*http.Response, error) {
	x.headerLeft, x.received = x.of.MaxHeaderBytes, false
	for {
		resp, err := http.ReadResponse(x.in, req)
		switch {
		case err != nil && x.headerLeft == 0:
			return nil, ErrHeaderTooLong // or an error caused by the truncated header
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			resp.Close = true // not requested, so the rest is not HTTP
		case resp.StatusCode/100 == 1:
			continue
		}
		x.headerLeft = -1
		x.applyKeepAlive(resp.Header)
		return resp, nil
	}
}

// Read reads the body.
func (x *exchange) Read(p []byte) (int, error) {
	switch {
	case x.err != nil:
		return 0, x.err
	case x.ended.Load():
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

// Close ends the exchange. If the response is incomplete, the connection is closed.
func (x *exchange) Close() error {
	x.end(false)
	return nil
}

// fail ends the exchange and returns the reason: the cause of the request's context if that
// has ended, or else the error of sending the request, if any.
func (x *exchange) fail(err error) error {
	x.end(false)
	if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	select {
	case failed := <-x.sent:
		if failed != nil {
			return fmt.Errorf("%w (%w)", failed, err)
		}
	default:
	}
	return err
}

// end ends the exchange, once. The connection is kept if the response is complete, which whole
// reports, and the connection is not being closed.
func (x *exchange) end(whole bool) {
	if x.ended.Swap(true) {
		return
	}
	keep := x.cancelCut() && whole && x.isSent() && x.in.Buffered() == 0
	if whole {
		x.in.Reset(nil)
		readers.Put(x.in)
	}
	if !keep || !x.of.idle.put(x.conn) {
		x.conn.Close()
	}
}
