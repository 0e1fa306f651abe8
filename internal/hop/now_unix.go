// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package hop

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// looks says that sockets can be looked at.
const looks = true

// nowOn returns what can be done to the connection without waiting, nil for nothing.
func nowOn(c net.Conn) nowOrNever {
	if own, ok := c.(nowOrNever); ok {
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

// socket is one of the system's. Its functions are made once, and what they are about is
// in fields, so that nothing is allocated for a call.
type socket struct {
	raw         syscall.RawConn
	write, look func(fd uintptr) (done bool)
	out         []byte
	n           int
	err         error
	in          [1]byte
}

// TryWrite writes as much as is taken at once.
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

// IsQuiet reports whether there is nothing to be read now, and no end either.
func (s *socket) IsQuiet() bool {
	s.err = nil
	return s.raw.Read(s.look) == nil && isLater(s.err)
}

func (s *socket) lookNow(fd uintptr) bool {
	_, _, s.err = syscall.Recvfrom(int(fd), s.in[:], syscall.MSG_PEEK)
	return true
}

// isLater reports whether something could not be done without waiting.
func isLater(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
}

// isOfPeer reports whether writing has failed because the other end reads no more.
func isOfPeer(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrClosedPipe)
}
