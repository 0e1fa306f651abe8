// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package faultyserver

import (
	"fmt"
	"io"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Lines is a server over a stream of lines. The zero value is a correct legacy server. Its
// fields must be set before Serve.
type Lines struct {
	// Modern makes the server answer server/discover as a modern server does, and refuse
	// initialize.
	Modern bool

	// Capabilities is what the server declares; "" means {"tools":{}}.
	Capabilities string

	// On has the test's handlers, by method. The key of a response to one of the server's
	// own requests is "response".
	On map[string]func(x *Line)

	mu   sync.Mutex
	seen []Seen
}

// Line is one message and its answer. Its handler runs on the goroutine that reads: a
// handler that blocks stops the server from reading, which some tests need. Its methods may
// also be called later and from other goroutines.
type Line struct {
	Msg mcp.Message

	server *Lines
	rwc    io.ReadWriteCloser
	write  *sync.Mutex
}

// Serve answers messages until the stream ends.
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

// Polite answers as a correct server does.
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
func (x *Line) Result(result string) {
	x.Send(string(jsonrpc.AppendResult(nil, x.Msg.ID, []byte(result))))
}

// Error answers with an error.
func (x *Line) Error(code int64, message string) {
	x.Send(string(jsonrpc.AppendError(nil, x.Msg.ID, mcp.Errorf(code, "%s", message))))
}

// Send writes a line.
func (x *Line) Send(line string) { x.Raw(line + "\n") }

// Raw writes text unmodified. Concurrent calls are serialized.
func (x *Line) Raw(text string) {
	x.write.Lock()
	defer x.write.Unlock()
	if _, err := io.WriteString(x.rwc, text); err != nil {
		return // the client has disconnected, which the test notices
	}
}

// Stream returns an identity of the stream that the message arrived on.
func (x *Line) Stream() any { return x.rwc }

// Close ends the stream.
func (x *Line) Close() { x.rwc.Close() }
