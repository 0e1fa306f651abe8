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

// groupRuns reports whether processes of a group run.
func groupRuns(pid int) bool {
	if pid <= 1 || syscall.Kill(-pid, 0) != nil {
		return false
	}
	for s := range allStats { // some may have ended, and be in the group until their parent waits
		if s.group == pid && !s.ended {
			return true
		}
	}
	return false
}

// spawner starts processes from one thread that lives as long as they do: the kernel
// sends the parent-death signal when the thread that started the child ends, not when
// the process does. The zero value is ready.
type spawner struct {
	mu      sync.Mutex
	work    chan func() // to the thread; nil before the first start
	done    chan struct{}
	stopped bool
}

// start calls cmd.Start on the spawner's thread. Starts are serialized, which is
// negligible beside a server's own start.
func (s *spawner) start(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return call.ErrClosed
	}
	if s.work == nil {
		s.work, s.done = make(chan func()), make(chan struct{})
		go runOnThread(s.work, s.done) // ends when stop closes the channel; stop waits for it
	}
	result := make(chan error, 1)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

func runOnThread(work <-chan func(), done chan<- struct{}) {
	defer close(done)
	// Not unlocked: the thread must end with the goroutine.
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

// stop ends the thread, if there is one. All children must have ended.
func (s *spawner) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work != nil && !s.stopped {
		close(s.work)
		<-s.done
	}
	s.stopped = true
}
