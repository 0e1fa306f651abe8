// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memnet is a network of one process for tests: a [net.Listener] and
// the connections to it, made of nothing but memory, so that a real
// [net/http.Server] and a real [net/http.Client] meet inside a bubble of
// testing/synctest, where sockets cannot go.
//
// Unlike [net.Pipe], a connection has a buffer in each direction: where both
// sides write first, nobody waits. The buffer is bounded, so that a peer which
// does not read is felt by the one who writes, as on a real network.
package memnet

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/hop"
)

// DefaultBuffer is how many bytes one direction of a connection holds.
const DefaultBuffer = 64 << 10

// Listener accepts the connections that its own Dial makes. Its methods may be
// called concurrently.
type Listener struct {
	// Buffer is how many bytes one direction of a connection holds; zero is
	// DefaultBuffer. It is read by each Dial.
	Buffer int

	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// Listen returns an open Listener.
func Listen() *Listener {
	return &Listener{incoming: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for the next connection. After Close it returns [net.ErrClosed].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: network, Err: net.ErrClosed}
	}
}

// Close ends Accept and Dial. Connections that are open stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address that clients put into a URL.
func (l *Listener) Addr() net.Addr { return addr{} }

// Dial returns the client's end of a new connection, once it is accepted.
func (l *Listener) Dial(ctx context.Context) (*Conn, error) {
	size := l.Buffer
	if size <= 0 {
		size = DefaultBuffer
	}
	client, server := Pipe(size)
	select {
	case l.incoming <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: network, Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Transport returns a transport whose connections all lead to the listener,
// whatever host a URL names. The caller ends it with CloseIdleConnections.
func (l *Listener) Transport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) },
	}
}

// HTTP2 returns a transport like that one, which speaks HTTP/2 alone, to a server that
// was given [AnyHTTP]. Of a response that nobody reads it takes as much as a connection
// holds by default.
func (l *Listener) HTTP2() *http.Transport {
	tr := l.Transport()
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	tr.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: DefaultBuffer}
	return tr
}

// AnyHTTP is for a server whose clients choose between HTTP/1.1 and HTTP/2.
func AnyHTTP() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// Hop returns a transport like the first, of the kind that clients have of their own.
func (l *Listener) Hop() *hop.Transport {
	return Hop(func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) })
}

// Hop returns a transport of that kind for connections that are made otherwise.
func Hop(dial func(ctx context.Context, network, address string) (net.Conn, error)) *hop.Transport {
	return &hop.Transport{
		Dial: dial, WriteTimeout: time.Minute, MaxHeaderBytes: 1 << 20, MaxIdle: 64, IdleTimeout: 90 * time.Second,
	}
}

const network = "memory"

// addr is the address of both ends: one of loopback, because that is what no
// other machine can reach either.
type addr struct{}

func (addr) Network() string { return network }
func (addr) String() string  { return "127.0.0.1:80" }
