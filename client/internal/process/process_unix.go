// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// terminateGroup asks a child and all that it has started to terminate.
func terminateGroup(pid int) { signalGroup(pid, syscall.SIGTERM) }

// killGroup kills a child and all that it has started.
func killGroup(pid int) { signalGroup(pid, syscall.SIGKILL) }

// signalGroup signals the group that the child leads. An empty group is not an error.
func signalGroup(pid int, sig syscall.Signal) {
	if pid <= 1 {
		return
	}
	if err := syscall.Kill(-pid, sig); err != nil {
		return // ESRCH
	}
}

// groupRuns reports whether there are processes in the group of a child that has ended.
func groupRuns(pid int) bool { return pid > 1 && syscall.Kill(-pid, 0) == nil }

// readBuffered reads what a pipe holds, without waiting and regardless of its deadline.
func readBuffered(f *os.File, p []byte) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, io.EOF
	}
	// Control ignores the deadline, unlike Read. The runtime has made the descriptor
	// non-blocking.
	if cerr := conn.Control(func(fd uintptr) { n, err = readOnce(int(fd), p) }); cerr != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

func readOnce(fd int, p []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, p)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// guardianScript reads "+ pid" and "- pid". When its input ends, which happens however
// this process ends, it kills the remaining groups.
const guardianScript = `trap '' HUP INT TERM
all=
while read -r op pid; do
	case $op in
	+) all="$all $pid" ;;
	-) rest=; for p in $all; do [ "$p" = "$pid" ] || rest="$rest $p"; done; all=$rest ;;
	esac
done
for p in $all; do kill -9 "-$p"; done 2>/dev/null
`

// guardianTime limits each write to the guardian, and its end.
const guardianTime = time.Second

// guardian is a process that outlives this one briefly, to kill the process groups of
// its children. A child may be killed with its parent, but not what it has started.
// Without a shell there is no guardian, and such processes end with their input. The
// zero value is ready.
type guardian struct {
	mu      sync.Mutex
	started bool
	guarded int       // groups
	cmd     *exec.Cmd // nil without a guardian
	input   *os.File
}

// watch makes the guardian kill a child's group when this process ends. spawn starts a
// process.
func (g *guardian) watch(pid int, spawn func(*exec.Cmd) error) {
	g.mu.Lock()
	if !g.started {
		// Also if that fails: it is not repeated with each child, and children start
		// without a guardian.
		g.started = true
		g.startLocked(spawn)
	}
	g.guarded++
	input := g.input
	g.mu.Unlock()
	send(input, "+", pid)
}

func (g *guardian) startLocked(spawn func(*exec.Cmd) error) {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	cmd := exec.Command("/bin/sh", "-c", guardianScript) //nolint:noctx // it outlives every request
	cmd.Stdin = r
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to this process group do not end it
	err = spawn(cmd)
	r.Close()
	if err != nil {
		w.Close()
		return
	}
	g.cmd, g.input = cmd, w
}

// forget removes a group that has ended. The guardian of the last one ends: a server may be
// idle for long.
func (g *guardian) forget(pid int) {
	g.mu.Lock()
	g.guarded--
	cmd, input := g.cmd, g.input
	last := g.guarded == 0 && cmd != nil
	if last {
		g.started, g.cmd, g.input = false, nil, nil
	}
	g.mu.Unlock()
	send(input, "-", pid)
	if last {
		end(cmd, input)
	}
}

// send blocks only briefly: if the guardian is stuck, groups are not guarded, but
// children still start.
func send(input *os.File, op string, pid int) {
	if input == nil || input.SetWriteDeadline(time.Now().Add(guardianTime)) != nil {
		return
	}
	fmt.Fprintf(input, "%s %d\n", op, pid) // without a guardian there is nothing to do
}

// stop ends the guardian, which is not used or started again. All children have ended.
func (g *guardian) stop() {
	g.mu.Lock()
	cmd, input := g.cmd, g.input
	g.started, g.cmd, g.input = true, nil, nil
	g.mu.Unlock()
	if cmd != nil {
		end(cmd, input)
	}
}

// end ends a guardian that has nothing to guard.
func end(cmd *exec.Cmd, input *os.File) {
	input.Close() // the end of its input ends it
	kill := time.AfterFunc(guardianTime, func() { killGroup(cmd.Process.Pid) })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil {
		return // it was killed
	}
}
