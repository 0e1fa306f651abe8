// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// link is a connection in use.
type link struct {
	conn    Conn
	writing sync.Mutex    // held for a whole line of the client
	gone    chan struct{} // closed after the end, when all is answered

	// Guarded by Relay.mu.
	isGone  bool
	replies map[mcp.ID]chan reply // of the Relay's own requests
}

// write writes a line of the client, and reports whether its end was written.
func (l *link) write(line []byte) bool {
	l.writing.Lock()
	defer l.writing.Unlock()
	n, _ := l.conn.Write(line) // the end of the link handles the error
	return n == len(line)
}

// reply is the answer to a request of the Relay itself.
type reply struct {
	line   []byte
	failed bool
}

// readGateway passes on what the gateway sends, until the connection ends.
func (r *Relay) readGateway(ctx context.Context, l *link) {
	defer r.lose(ctx, l)
	defer l.conn.Close()
	lines := newParts(l.conn)
	for {
		p, err := lines.next()
		switch {
		case p.isWhole():
			if r.hold(ctx, l, p.data, p.messages) {
				continue
			}
			if text := r.receive(l, p.data, p.messages); text != nil {
				r.pass(text)
			}
		case len(p.data) > 0 && err == nil:
			err = r.passLong(l, lines, p)
		}
		if err != nil {
			return
		}
	}
}

func (r *Relay) pass(text []byte) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	r.out.write(text)
}

// passLong passes a long line on while it arrives, unless it is the answer to a request of
// the Relay itself. If it is cut off, its line is ended, so that the client can read the next
// one.
func (r *Relay) passLong(l *link, lines *parts, p part) error {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	pass := r.out.write
	if r.isReply(l, p.messages) {
		pass = func([]byte) {}
	}
	for text := r.receiveFirst(l, &p); ; text = p.data {
		pass(text)
		if p.last {
			r.receive(l, nil, p.messages)
			return nil
		}
		var err error
		if p, err = lines.next(); err != nil {
			pass([]byte("\n"))
			return err
		}
	}
}

// isReply reports whether a first part is of the answer to a request of the Relay itself.
// The gateway writes the id first.
func (r *Relay) isReply(l *link, first []message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(first) == 1 && first[0].isResponse() && l.replies[first[0].id] != nil
}

// receiveFirst handles the first part of a long line: a request must have its id before
// the client sees it.
func (r *Relay) receiveFirst(l *link, p *part) []byte {
	if len(p.messages) != 1 || !p.messages[0].isRequest() {
		return p.data
	}
	return r.receive(l, p.data, p.messages)
}

// receive records what a line of the gateway ends or asks, and returns what the client
// gets, or nil for the answer to a request of the Relay itself.
func (r *Relay) receive(l *link, line []byte, messages []message) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range messages {
		m := &messages[i]
		switch {
		case m.isResponse():
			if to := l.replies[m.id]; to != nil {
				delete(l.replies, m.id)
				to <- reply{bytes.Clone(line), m.failed} // has space for it
				return nil
			}
			r.answeredLocked(l, m, line)
		case m.isRequest() && line != nil:
			if shown := r.asks.add(m.id, l); shown != m.id {
				return slices.Concat(line[:m.idStart], []byte(shown.String()), line[m.idEnd:])
			}
		case m.method == "notifications/cancelled":
			return r.cancelledByGateway(l, line)
		}
	}
	return line
}

// answeredLocked records the answer to a request of the client.
func (r *Relay) answeredLocked(l *link, m *message, line []byte) {
	q := r.inFlight[m.id]
	if q == nil || q.link != l {
		return
	}
	r.forgetLocked(m.id)
	if isHandshake(q.method) {
		r.handshakes = 0
	}
	if !m.failed {
		r.session = r.session.after(q, line)
	}
}

// cancelledByGateway returns the cancel of a request of the gateway with the id that the
// client knows.
func (r *Relay) cancelledByGateway(l *link, line []byte) []byte {
	own, ok := cancelled(line)
	if !ok {
		return line
	}
	shown := r.asks.shown(own, l)
	delete(r.asks.open, shown)
	if shown == own {
		return line
	}
	m, err := mcp.Parse(line, mcp.Limits{})
	if err != nil {
		return line
	}
	var e mcp.Edit
	e.Set(mcp.FieldRequestID, []byte(shown.String()))
	return append(jsonrpc.AppendNotification(nil, m.Method, e.AppendTo(nil, &m.Params)), '\n')
}

// cancelled returns the id of the request that a notification cancels. It reports false
// for an invalid one, and for one that is not a whole line.
func cancelled(line []byte) (mcp.ID, bool) {
	m, err := mcp.Parse(line, mcp.Limits{})
	if err != nil {
		return mcp.ID{}, false
	}
	id, err := mcp.ParseID(m.Params.Raw(mcp.FieldRequestID))
	return id, err == nil
}
