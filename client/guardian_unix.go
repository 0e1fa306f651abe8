// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package client

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// guardianScript reads "+ pid" and "- pid" and kills the groups that are left
// when its input ends, which is when we do, however we do.
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

// guardianTime bounds each word to the guardian, and its end.
const guardianTime = time.Second

// guardian is a process that outlives us for a moment to kill the groups of our
// children. A child may die with its parent; what it has started does not. Where
// there is no shell there is no guardian, and such processes end with their
// input. The zero value is ready.
type guardian struct {
	mu      sync.Mutex
	started bool
	cmd     *exec.Cmd // nil where there is none
	input   *os.File
}

// watch has the group of a child killed when we die. spawn starts a process.
func (g *guardian) watch(pid int, spawn func(*exec.Cmd) error) {
	g.send("+", pid, g.ensureStarted(spawn))
}

// forget is called when nothing of the group is left.
func (g *guardian) forget(pid int) { g.send("-", pid, g.currentInput()) }

// tell never waits for long: a guardian that is stuck costs us the guarding, and not
// the call that starts a child.
func (g *guardian) send(op string, pid int, words *os.File) {
	if words == nil || words.SetWriteDeadline(time.Now().Add(guardianTime)) != nil {
		return
	}
	fmt.Fprintf(words, "%s %d\n", op, pid) // a guardian that is gone guards nothing
}

func (g *guardian) currentInput() *os.File {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.input
}

// begin returns the way to the guardian, which the first call starts.
func (g *guardian) ensureStarted(spawn func(*exec.Cmd) error) *os.File {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started {
		return g.input
	}
	// Whatever comes of it: where a guardian cannot be started once, it is not tried
	// with each child again, and children are started without.
	g.started = true
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", guardianScript) //nolint:noctx // it outlives every request
	cmd.Stdin = r
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what ends our group does not end it
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
	cmd, words := g.take()
	if cmd == nil {
		return
	}
	words.Close() // the end of its input is what ends it
	kill := time.AfterFunc(guardianTime, func() { killGroup(cmd.Process.Pid) })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil {
		return // it was killed, by us or by somebody else
	}
}

// take leaves nothing behind to be told or stopped twice, and none is begun again.
func (g *guardian) take() (*exec.Cmd, *os.File) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cmd, words := g.cmd, g.input
	g.started, g.cmd, g.input = true, nil, nil
	return cmd, words
}
