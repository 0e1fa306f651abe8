// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"io"

	"github.com/signalbox-mcp/signalbox/internal/frame"
)

// Room reserves memory for the response to the call, and ends the call if there is
// none. The server is not read from meanwhile.
func (c *Call) Room(bytes int, _ []byte) error {
	err := c.outbound.Req.Reserve(c.Ctx, bytes)
	if err != nil {
		c.Fail(err)
	}
	return err
}

// meteredReader reserves memory for a document as it is read.
type meteredReader struct {
	io.Reader
	bound frame.Bound // nil until it is known that the document will be buffered
	have  int
	most  int // bytes that memory is reserved for
}

// Read implements io.Reader.
func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.have += n
	if r.bound == nil || r.have <= r.most {
		return n, err
	}
	r.most = 2 * r.have
	if no := r.bound.Room(r.most, nil); no != nil {
		return n, no
	}
	return n, err
}
