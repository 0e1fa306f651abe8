// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestAwaitInput checks that the poll lasts until there is input or its time is over.
func TestAwaitInput(t *testing.T) {
	_, from, to := pipe(t)
	start := time.Now()
	for range 20 { // a signal may interrupt each wait
		if awaitInput(from.Fd(), window) {
			t.Fatal("there is input before anybody has written")
		}
	}
	if took := time.Since(start); took < 10*window {
		t.Errorf("waited %v for nothing; want %v", took, 20*window)
	}
	if _, err := to.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if !awaitInput(from.Fd(), time.Hour) {
		t.Error("there is no input, though somebody has written")
	}
}

// conn records the wait before a read.
type conn struct {
	*os.File
	asked int
}

func (c *conn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.File.SyscallConn()
	return rawConn{raw, c}, err
}

type rawConn struct {
	syscall.RawConn
	of *conn
}

func (c rawConn) Read(ask func(uintptr) bool) error {
	return c.RawConn.Read(func(fd uintptr) bool {
		c.of.asked++
		return ask(fd)
	})
}

// TestReaderAsksFirst checks that each Read waits for the descriptor first.
func TestReaderAsksFirst(t *testing.T) {
	_, from, to := pipe(t)
	file := &conn{File: from}
	r := NewReader(file)
	for i := range 3 {
		if _, err := to.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if file.asked != i+1 {
			t.Errorf("%d reads have asked %d times", i+1, file.asked)
		}
	}
}
