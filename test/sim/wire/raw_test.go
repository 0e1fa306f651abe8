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

// raw is what the two clients have in common that speak HTTP by themselves, and
// therefore know exactly what they have sent and seen.
type raw struct {
	w     *world
	name  string
	token string // that says who calls, or ""
	tr    transport
	http  *http.Client
	n     int // requests so far; the driver's
}

func newRaw(w *world, name, token string) raw {
	tr := w.transport(true)
	return raw{w: w, name: name, token: token, tr: tr, http: &http.Client{Transport: tr}}
}

func (c *raw) close() { c.tr.CloseIdleConnections() }

// scripts are what backends are asked to do: short and long, silent and chatty,
// asking and failing.
var scripts = []string{"", "p", "1", "pl", "3p", "2p2p2p", "a", "p3ap", "aa", "i", "pip", "b", "b", "3b", "pb", "4p", "pppppppp", "e", "3e", "h", "ph", "lh", "h", "5p5p5p", "l4l5l", "3a3a", "5", "q", "pqp", "3qpq3p", "aqp", "w", "w", "wp3p", "wb"}

// newCall makes the record of a call that the client is about to make.
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

// send sends a message to a gateway. Who wants to know on which connection says where
// to put it.
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

// ending is how a carrier came to its end.
type ending struct {
	clean bool   // in order, as far as one can see
	last  string // the event after which it can be resumed
	retry time.Duration
	again bool   // the server has said when to come back
	part  []byte // of a document whose connection ended before it did
}

func (e ending) String() string {
	return fmt.Sprintf("clean %v, last %q, %d bytes of a document", e.clean, e.last, len(e.part))
}

// follow reads the messages of a response until its end, and gives each to take.
// A document has one message, and a stream has events.
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

// anywhere is what a stream is opened after that may have begun long ago.
const anywhere = "anywhere"

// checkNext wants the events of a stream to follow each other without a gap and
// without a repetition, over all the responses that carry it.
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
		was = session.EventID{Stream: is.Stream} // the place before the first
	}
	// The event that primes a carrier names the place that was reached.
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

// answerTo is what a client says to a question of that text.
func answerTo(question string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"answer":%q}}`, question)
}

// bearing is how a client treats those who ask it.
type bearing int

const (
	atOnce   bearing = iota
	later            // after some time
	twice            // the same answer two times
	wrongly          // to nothing that was asked, and then properly
	never            // not at all
	bearings         // how many there are
)

// callParams are the parameters of a call, without braces.
func (r *record) callParams() string {
	return fmt.Sprintf(`"name":%q,"arguments":{"mark":%q,"do":%q,"wide":%q}`, r.w.tool, r.mark, r.script, wide(r.script))
}

// lost notes that a request has no carrier any more.
func (r *record) lost(why any) { r.w.note("%s: no carrier: %v", r.mark, why) }

// ranOut notes that the last carrier of a request has come to its end.
func (r *record) ranOut(end ending) {
	r.lost(end)
	if end.part != nil {
		r.breakOff(end.part)
	}
}

// unheard notes that a request had no response at all.
func (r *record) unheard(err error) {
	r.lost(err)
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.silent = true
}
