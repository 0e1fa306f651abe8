// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package faultyserver

import (
	"fmt"
	"io"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Lines is a server over a stream of lines. The zero value is a polite legacy
// server. Its fields are set before Serve.
type Lines struct {
	// Modern has server/discover answered as a modern server does, and
	// initialize refused.
	Modern bool

	// Capabilities is what the server declares; "" is {"tools":{}}.
	Capabilities string

	// On has messages answered by the test, by method. An answer to one of our
	// own requests is "response".
	On map[string]func(x *Line)

	mu   sync.Mutex
	seen []Seen
}

// Line is one message while it is answered. It is answered on the goroutine that
// reads: a test that waits in an answer stops the server from reading, which is
// what some tests are about. Its methods may also be called later, and from
// elsewhere.
type Line struct {
	Msg mcp.Message

	server *Lines
	rwc    io.ReadWriteCloser
	write  *sync.Mutex
}

// Serve answers what it reads until the stream ends.
func (s *Lines) Serve(rwc io.ReadWriteCloser) {
	defer rwc.Close()
	lines := frame.NewLineReader(rwc, 64<<20)
	write := new(sync.Mutex)
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := mcp.Parse(line, mcp.Limits{})
		if err != nil {
			return
		}
		s.note(Seen{Method: m.Method, ID: m.ID.String(), Body: string(line)})
		x := &Line{Msg: m, server: s, rwc: rwc, write: write}
		key := m.Method
		if m.Kind == mcp.KindResult || m.Kind == mcp.KindError {
			key = "response"
		}
		if answer, ok := s.On[key]; ok {
			answer(x)
			continue
		}
		x.Polite()
	}
}

func (s *Lines) note(r Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r)
}

// Seen returns the messages received so far, in order.
func (s *Lines) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Seen(nil), s.seen...)
}

// Count returns how many messages of the method have been received.
func (s *Lines) Count(method string) int {
	n := 0
	for _, r := range s.Seen() {
		if r.Method == method {
			n++
		}
	}
	return n
}

// Polite answers as a plain server does.
func (x *Line) Polite() {
	caps := x.server.Capabilities
	if caps == "" {
		caps = `{"tools":{}}`
	}
	switch {
	case x.Msg.Kind != mcp.KindRequest:
	case x.Msg.Method == "server/discover" && x.server.Modern:
		x.Result(fmt.Sprintf(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":%s}`, caps))
	case x.Msg.Method == "initialize" && !x.server.Modern:
		v, _ := x.Msg.Params.Text(mcp.FieldProtocolVersion)
		x.Result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"zoo","version":"1"}}`, v, caps))
	case x.Msg.Method == "tools/call":
		x.Result(`{"content":[]}`)
	default:
		x.Error(-32601, "method not found")
	}
}

// Result answers with a result.
func (x *Line) Result(result string) { x.Send(string(mcp.AppendResult(nil, x.Msg.ID, []byte(result)))) }

// Error answers with an error.
func (x *Line) Error(code int64, message string) {
	x.Send(string(mcp.AppendError(nil, x.Msg.ID, mcp.Errorf(code, "%s", message))))
}

// Send writes a line.
func (x *Line) Send(line string) { x.Raw(line + "\n") }

// Raw writes bytes as they are, and not between those of another Raw: what a test
// breaks is broken on purpose.
func (x *Line) Raw(text string) {
	x.write.Lock()
	defer x.write.Unlock()
	if _, err := io.WriteString(x.rwc, text); err != nil {
		return // the client is gone, which the test finds out
	}
}

// Stream tells the messages of one stream from those of another.
func (x *Line) Stream() any { return x.rwc }

// Close ends the stream.
func (x *Line) Close() { x.rwc.Close() }
