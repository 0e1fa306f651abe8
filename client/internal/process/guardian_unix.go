// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

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
	cmd     *exec.Cmd // nil without a guardian
	input   *os.File
}

// watch makes the guardian kill a child's group when this process ends. spawn starts a
// process.
func (g *guardian) watch(pid int, spawn func(*exec.Cmd) error) {
	g.send("+", pid, g.ensureStarted(spawn))
}

// forget removes a group that has ended.
func (g *guardian) forget(pid int) { g.send("-", pid, g.currentInput()) }

// send blocks only briefly: if the guardian is stuck, groups are not guarded, but
// children still start.
func (g *guardian) send(op string, pid int, input *os.File) {
	if input == nil || input.SetWriteDeadline(time.Now().Add(guardianTime)) != nil {
		return
	}
	fmt.Fprintf(input, "%s %d\n", op, pid) // without a guardian there is nothing to do
}

func (g *guardian) currentInput() *os.File {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.input
}

// ensureStarted returns the guardian's input. The first call starts the guardian.
func (g *guardian) ensureStarted(spawn func(*exec.Cmd) error) *os.File {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started {
		return g.input
	}
	// Set even if it fails: the start is not repeated with each child, and children
	// start without a guardian.
	g.started = true
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", guardianScript) //nolint:noctx // it outlives every request
	cmd.Stdin = r
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to this process group do not end it
	err = spawn(cmd)
	r.Close()
	if err != nil {
		w.Close()
		return nil
	}
	g.cmd, g.input = cmd, w
	return w
}

// stop ends the guardian. All children have ended.
func (g *guardian) stop() {
	cmd, input := g.take()
	if cmd == nil {
		return
	}
	input.Close() // the end of its input ends it
	kill := time.AfterFunc(guardianTime, func() { killGroup(cmd.Process.Pid) })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil {
		return // it was killed
	}
}

// take returns the guardian and clears it, so that it is not used, stopped or started
// again.
func (g *guardian) take() (*exec.Cmd, *os.File) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cmd, input := g.cmd, g.input
	g.started, g.cmd, g.input = true, nil, nil
	return cmd, input
}
