// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memnet is an in-memory network for tests: a [net.Listener] and connections to it.
// It lets a real [net/http.Server] and a real [net/http.Client] run in a bubble of
// testing/synctest, which does not support sockets.
//
// Unlike [net.Pipe], a connection has a buffer in each direction, so that both sides can
// write first. The buffer is bounded: as on a real network, a writer blocks if its peer
// does not read.
package memnet

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/http1"
)

// DefaultBuffer is the default buffer size of one direction of a connection.
const DefaultBuffer = 64 << 10

// Listener accepts the connections of its Dial method. Its methods may be called
// concurrently.
type Listener struct {
	// Buffer is the buffer size of one direction of a connection; zero means DefaultBuffer.
	// Each Dial reads it.
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

// Close ends Accept and Dial. Open connections remain open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address for use in a URL.
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

// Transport returns a transport that connects to the listener for every host. The caller
// must call CloseIdleConnections.
func (l *Listener) Transport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) },
	}
}

// HTTP2 returns a transport like Transport that speaks only HTTP/2, to a server with
// [AnyHTTP]. Of a response that is not read it receives as much as a connection buffers by
// default.
func (l *Listener) HTTP2() *http.Transport {
	tr := l.Transport()
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	tr.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: DefaultBuffer}
	return tr
}

// AnyHTTP returns the protocols of a server that accepts HTTP/1.1 and HTTP/2.
func AnyHTTP() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// HTTP1 returns a transport like Transport, of the type that package client uses.
func (l *Listener) HTTP1() *http1.Transport {
	return HTTP1(func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) })
}

// HTTP1 returns a transport of that type with another dial function.
func HTTP1(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http1.Transport {
	return &http1.Transport{
		Dial: dial, WriteTimeout: time.Minute, MaxHeaderBytes: 1 << 20, MaxIdle: 64, IdleTimeout: 90 * time.Second,
	}
}

const network = "memory"

// addr is the address of both ends: a loopback address, because no other machine can reach
// it.
type addr struct{}

func (addr) Network() string { return network }
func (addr) String() string  { return "127.0.0.1:80" }
