// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// ownGroup puts the child into a process group of its own and has it killed when
// we die, however we die.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// spawner starts processes from one thread that lives as long as they do: the
// kernel's parent-death signal is sent when the thread dies that started the
// child, not when the process does.
type spawner struct {
	mu      sync.Mutex
	work    chan func()
	stopped bool
	done    chan struct{}
}

// start is cmd.Start on the spawner's thread. Children are started one after the
// other, which takes a moment each and is nothing beside what a server needs to be
// ready.
func (s *spawner) start(cmd *exec.Cmd) error {
	work := s.thread()
	if work == nil {
		return errClosed
	}
	result := make(chan error, 1)
	work <- func() { result <- cmd.Start() }
	return <-result
}

// thread returns the way to the thread, which the first call begins.
func (s *spawner) thread() chan<- func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	if s.work == nil {
		s.work, s.done = make(chan func()), make(chan struct{})
		go runOnThread(s.work, s.done) // ends when stop closes the channel; stop waits for it
	}
	return s.work
}

func runOnThread(work <-chan func(), gone chan<- struct{}) {
	defer close(gone)
	// Never unlocked: the thread ends with the goroutine.
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

// stop ends the thread. It is called when all children have ended and none is
// started any more.
func (s *spawner) stop() {
	if gone := s.closeWork(); gone != nil {
		<-gone
	}
}

// shut may be called when nothing was ever started, and more than once.
func (s *spawner) closeWork() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work != nil && !s.stopped {
		close(s.work)
	}
	s.stopped = true
	return s.done
}
