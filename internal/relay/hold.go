// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	// maxKept bounds the bytes of the requests in flight that are kept, to be sent again.
	maxKept = 64 << 10

	// holdTimeout bounds how long a request waits for the end of a gateway that shuts down,
	// and so for the calls that run in it.
	holdTimeout = 10 * time.Second
)

// keepLocked keeps the line of a request until it is answered, if there is space. A
// handshake, which must not be lost, always has space. line is nil if the request is not a
// line of its own.
func (r *Relay) keepLocked(q *request, line []byte) {
	if line == nil || !isHandshake(q.method) && r.kept+len(line) > maxKept {
		return
	}
	q.line = bytes.Clone(line)
	r.kept += len(line)
}

// forgetLocked removes a request that is answered, or expects no answer.
func (r *Relay) forgetLocked(id mcp.ID) {
	if q := r.inFlight[id]; q != nil {
		r.kept -= len(q.line)
		delete(r.inFlight, id)
	}
}

// isHandshake reports whether a method is the handshake of either era, which runs nothing.
func isHandshake(method string) bool { return method == initialize || method == "server/discover" }

// hold reports whether a line is the refusal of a request by a gateway that shuts down, and
// the request is sent to the next gateway instead: it has not run.
func (r *Relay) hold(ctx context.Context, l *link, line []byte, messages []message) bool {
	if len(messages) != 1 || !messages[0].isResponse() || !messages[0].failed || !isShutdown(line) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.inFlight[messages[0].id]
	if q == nil || q.link != l || q.line == nil || r.closing {
		return false
	}
	q.link = nil
	refusal := bytes.Clone(line)
	r.running.Go(func() { // ends with ctx, or when the request is sent or refused
		late := time.NewTimer(holdTimeout)
		defer late.Stop()
		select {
		case <-l.gone:
			if r.release(q) {
				r.sendAgain(ctx, q)
			}
		case <-late.C:
			if r.release(q) {
				r.pass(refusal)
			}
		case <-ctx.Done():
		}
	})
	return true
}

// release forgets a request that is held. It reports false if the client has cancelled it.
func (r *Relay) release(q *request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inFlight[q.id] != q {
		return false
	}
	r.forgetLocked(q.id)
	return true
}

// isShutdown reports whether an error says that the gateway shuts down, and that the
// request was not sent. One of a backend names the backend.
func isShutdown(line []byte) bool {
	wire, ok := errors.AsType[*mcp.Error](errorIn(line))
	if !ok || wire.Code != mcp.CodeShuttingDown {
		return false
	}
	notSent := false
	for name, value := range jsonscan.Members(wire.Data) {
		switch name {
		case "outcome":
			notSent = string(value) == `"`+string(mcp.NotDispatched)+`"`
		case "backend":
			return false
		}
	}
	return notSent
}
