// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// raw is the common part of the two clients that use HTTP directly, and therefore know
// exactly what they have sent and received.
type raw struct {
	w     *world
	name  string
	token string // of its principal, or ""
	tr    transport
	http  *http.Client
	n     int // requests so far; used by the driver only
}

func newRaw(w *world, name, token string) raw {
	tr := w.transport(true)
	return raw{w: w, name: name, token: token, tr: tr, http: &http.Client{Transport: tr}}
}

func (c *raw) close() { c.tr.CloseIdleConnections() }

// scripts are the scripts of backends: short and long, silent and verbose, asking and
// failing.
var scripts = []string{"", "p", "1", "pl", "3p", "2p2p2p", "a", "p3ap", "aa", "i", "pip", "b", "b", "3b", "pb", "4p", "pppppppp", "e", "3e", "h", "ph", "lh", "h", "5p5p5p", "l4l5l", "3a3a", "5", "q", "pqp", "3qpq3p", "aqp", "w", "w", "wp3p", "wb"}

// newCall returns the record of a call that the client is about to make.
func (c *raw) newCall(s *choice.Source, era mcp.Era) *record {
	c.n++
	r := &record{mark: fmt.Sprintf("%s.%d", c.name, c.n), client: c.name, era: era, script: scripts[s.Intn(len(scripts))]}
	r.away = []time.Duration{0, 0, 0, 0, 30 * time.Second, 2 * time.Minute}[s.Intn(6)]
	r.id = strconv.Itoa(c.n)
	if s.Intn(3) == 2 {
		r.id = strconv.Quote(r.id) // is another id
	}
	if len(c.w.gateways) > 1 {
		r.route = s.Intn(1 << (2 * rounds))
	}
	return c.w.newRecord(r)
}

// send sends a message to a gateway. If on is not nil, it receives the connection.
func (c *raw) send(ctx context.Context, to *gateway, on *atomic.Pointer[conn], method, body string, header http.Header) (*http.Response, error) {
	if on != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if to, ok := i.Conn.(*conn); ok {
				on.Store(to)
			}
		}})
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+to.host+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	return c.http.Do(req)
}

// ending is how a response ended.
type ending struct {
	clean bool   // regularly, as far as visible
	last  string // the event to resume from
	retry time.Duration
	again bool   // the server has sent a retry time
	part  []byte // of a document that was cut off
}

func (e ending) String() string {
	return fmt.Sprintf("clean %v, last %q, %d bytes of a document", e.clean, e.last, len(e.part))
}

// follow reads the messages of a response until its end, and passes each to take. A
// document has one message, a stream has events.
func (c *raw) follow(res *http.Response, last string, take func(*mcp.Message)) ending {
	defer res.Body.Close()
	end := ending{last: last}
	switch res.Header.Get("Content-Type") {
	case "application/json":
		data, err := io.ReadAll(res.Body)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			end.part = data
		}
		if err != nil {
			return end
		}
		c.parse(data, take)
		end.clean = true
	case "text/event-stream":
		c.followEvents(res.Body, &end, take)
	default:
		c.w.wrong("%s: an answer of type %q", c.name, res.Header.Get("Content-Type"))
	}
	return end
}

func (c *raw) followEvents(body io.Reader, end *ending, take func(*mcp.Message)) {
	events := frame.NewEventReader(body, 1<<20)
	for {
		e, err := events.Next()
		if err != nil {
			end.clean = errors.Is(err, io.EOF)
			return
		}
		if e.Retry >= 0 {
			end.retry, end.again = e.Retry, true
		}
		if e.HasID {
			c.checkNext(end.last, e.ID)
			end.last = e.ID
		}
		if len(e.Data) > 0 {
			c.parse(e.Data, take)
		}
	}
}

// anywhere is the position of a stream that may have begun long ago.
const anywhere = "anywhere"

// checkNext checks that the events of a stream follow each other without a gap and without
// a repetition, over all its responses.
func (c *raw) checkNext(last, next string) {
	is, ok := session.ParseEventID(next)
	if !ok {
		c.w.wrong("%s: got the event id %q", c.name, next)
		return
	}
	was, resumed := session.ParseEventID(last)
	switch {
	case last == anywhere:
		return
	case !resumed:
		was = session.EventID{Stream: is.Stream} // the position before the first
	}
	// The event that primes a response has the last position.
	if is.Stream != was.Stream || is.Pos != was.Pos+1 && is.Pos != was.Pos {
		c.w.wrong("%s: after event %q came event %q", c.name, last, next)
	}
}

func (c *raw) parse(data []byte, take func(*mcp.Message)) {
	m, err := mcp.Parse(data, mcp.Limits{})
	if err != nil {
		c.w.wrong("%s: got what is no message: %v: %s", c.name, err, short(data))
		return
	}
	take(&m)
}

// answerTo returns the answer to a question of that text.
func answerTo(question string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"answer":%q}}`, question)
}

// answerMode is how a client answers questions.
type answerMode int

const (
	atOnce      answerMode = iota
	later                  // after some time
	twice                  // the same answer twice
	wrongly                // an answer to no question, and then a proper one
	never                  // not at all
	answerModes            // the number of modes
)

// callParams returns the parameters of a call, without braces.
func (r *record) callParams() string {
	return fmt.Sprintf(`"name":%q,"arguments":{"mark":%q,"do":%q,"wide":%q}`, r.w.tool, r.mark, r.script, wide(r.script))
}

// lost records that a request has no response any more.
func (r *record) lost(why any) { r.w.note("%s: no carrier: %v", r.mark, why) }

// ranOut records that the last response of a request has ended.
func (r *record) ranOut(end ending) {
	r.lost(end)
	if end.part != nil {
		r.breakOff(end.part)
	}
}

// unheard records that a request had no response at all.
func (r *record) unheard(err error) {
	r.lost(err)
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.silent = true
}
