// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// canPeek reports whether sockets can be checked for data without reading.
const canPeek = true

// nonblockingOn returns the nonblocking operations of the connection, or nil.
func nonblockingOn(c net.Conn) nonblocking {
	if own, ok := c.(nonblocking); ok {
		return own
	}
	sys, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	s.write, s.look = s.writeNow, s.lookNow
	return s
}

// socket is a socket of the system. Its functions are created once and use fields, so that
// calls do not allocate.
type socket struct {
	raw         syscall.RawConn
	write, look func(fd uintptr) (done bool)
	out         []byte
	n           int
	err         error
	in          [1]byte
}

// TryWrite writes as much as possible without waiting.
func (s *socket) TryWrite(p []byte) (int, error) {
	s.out, s.n, s.err = p, 0, nil
	err := s.raw.Write(s.write)
	s.out = nil
	if err == nil && s.err != nil {
		err = os.NewSyscallError("write", s.err)
	}
	return s.n, err
}

func (s *socket) writeNow(fd uintptr) bool {
	n, err := syscall.Write(int(fd), s.out)
	s.n = max(0, n)
	if !isLater(err) {
		s.err = err
	}
	return true
}

// IsQuiet reports whether neither data nor the end of the stream is available.
func (s *socket) IsQuiet() bool {
	s.err = nil
	return s.raw.Read(s.look) == nil && isLater(s.err)
}

func (s *socket) lookNow(fd uintptr) bool {
	_, _, s.err = syscall.Recvfrom(int(fd), s.in[:], syscall.MSG_PEEK)
	return true
}

// isLater reports whether an operation would have to wait.
func isLater(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
}

// isPeerClosed reports whether a write failed because the peer no longer reads.
func isPeerClosed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrClosedPipe)
}
