// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"net"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
)

// A connection to a backend has a large receive buffer from the start, and still wakes
// the reader for a single byte.
func TestReceiveBufferOfConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := newTransport(call.NewSetup(call.Config{})).Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("a %T", conn)
	}
	if room, least := socketOption(t, c, syscall.SO_RCVBUF), socketOption(t, c, syscall.SO_RCVLOWAT); room < receiveBuffer || least != 1 {
		t.Errorf("room for %d bytes, and we are woken for %d; want %d and 1", room, least, receiveBuffer)
	}

	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if _, err := peer.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func socketOption(t *testing.T, c *net.TCPConn, option int) (value int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { value, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return value
}
