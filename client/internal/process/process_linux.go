// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
)

// ownGroup starts the child in a process group of its own, and makes the kernel kill it
// when this process ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// spawner starts processes from one thread that lives as long as they do: the kernel
// sends the parent-death signal when the thread that started the child ends, not when
// the process does.
type spawner struct {
	mu      sync.Mutex
	work    chan func()
	stopped bool
	done    chan struct{}
}

// start calls cmd.Start on the spawner's thread. Starts are serialized, which is
// negligible beside a server's own start.
func (s *spawner) start(cmd *exec.Cmd) error {
	work := s.thread()
	if work == nil {
		return call.ErrClosed
	}
	result := make(chan error, 1)
	work <- func() { result <- cmd.Start() }
	return <-result
}

// thread returns the channel to the thread. The first call starts the thread.
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
	// Not unlocked: the thread must end with the goroutine.
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

// stop ends the thread. All children must have ended.
func (s *spawner) stop() {
	if gone := s.closeWork(); gone != nil {
		<-gone
	}
}

// closeWork may be called more than once, and if there is no thread.
func (s *spawner) closeWork() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work != nil && !s.stopped {
		close(s.work)
	}
	s.stopped = true
	return s.done
}
