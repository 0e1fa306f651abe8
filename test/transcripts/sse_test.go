// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"
)

// ssePath is the path at which the gateway serves HTTP with SSE, the transport of
// 2024-11-05.
const ssePath = "/sse"

// sseWire is a client on that transport: one stream for all messages of the gateway,
// and POSTs to the address in its first event.
type sseWire struct {
	c      *transcriptClient
	client http.Client
	tasks  sync.WaitGroup
	all    context.Context // ends everything
	open   bool
	to     string // the address of messages; guarded by c.mu
}

func newSSEWire(c *transcriptClient) *sseWire {
	tr := c.w.front.Transport()
	tr.DisableCompression = true
	ctx, cancel := context.WithCancel(context.Background())
	s := &sseWire{c: c, client: http.Client{Transport: tr}, all: ctx}
	c.w.t.Cleanup(func() {
		cancel()
		s.tasks.Wait()
		tr.CloseIdleConnections()
	})
	return s
}

// connect opens the connection with the first message.
func (s *sseWire) connect() {
	if s.open {
		return
	}
	s.open = true
	r, err := http.NewRequestWithContext(s.all, http.MethodGet, "http://localhost"+ssePath, nil)
	if err != nil {
		s.c.w.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	s.tasks.Go(func() { // ends with the connection; the run waits for it
		res, err := s.client.Do(r)
		if err != nil {
			return
		}
		defer res.Body.Close()
		at := &streamPosition{}
		readMessages(res, at, func(msg []byte) { s.take(at.name, msg) })
		s.ended()
	})
	synctest.Wait()
}

// take receives one event: the first is the address of messages, and all others are
// messages.
func (s *sseWire) take(name string, data []byte) {
	if s.endpoint() == "" {
		to := string(data)
		if name != "endpoint" || !strings.HasPrefix(to, ssePath+"?") {
			s.c.show("", "BREACH: the connection begins with "+name+" "+to)
		}
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		s.to = to
		return
	}
	if name != "message" {
		s.c.show("", "BREACH: an event "+name)
	}
	s.c.receive(nil, data)
}

func (s *sseWire) endpoint() string {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.to
}

func (s *sseWire) ended() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.listening && s.all.Err() == nil {
		s.c.show(listenLabel, "end")
	}
}

func (s *sseWire) request(_ *exchange, msg []byte) { s.note(msg) }

// note posts a message. The response only accepts it.
func (s *sseWire) note(msg []byte) {
	s.connect()
	r, err := http.NewRequestWithContext(s.all, http.MethodPost, "http://localhost"+s.endpoint(), bytes.NewReader(msg))
	if err != nil {
		s.c.w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	s.tasks.Go(func() { // ends with the answer; the run waits for it
		defer close(done)
		res, err := s.client.Do(r)
		if err != nil {
			return
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusAccepted {
			s.c.show("", "BREACH: "+res.Status+" "+string(body))
		}
	})
	<-done // messages arrive in the order in which they are sent
}

func (s *sseWire) listen() bool { // the connection always listens
	s.connect()
	return true
}
func (s *sseWire) unlisten() bool        { return false }
func (s *sseWire) drop(*exchange) bool   { return false }
func (s *sseWire) resume(*exchange) bool { return false }
