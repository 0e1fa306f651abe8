// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is how long a process may take to end after it was asked to.
const grace = 10 * time.Second

// Process is a running program.
type Process struct {
	// Address is what it said that it listens on.
	Address string
	// Started is when it was started.
	Started time.Time

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its output is read

	mu   sync.Mutex
	last []string
}

// listening is what a program says before the address that it listens on.
const listening = "listening on "

// Start starts a program and waits until it says, on either output, that it is
// "listening on" an address. Whoever starts it ends it by Stop.
func Start(ctx context.Context, program string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(program, args...), done: make(chan struct{})} //nolint:gosec,noctx // Stop ends it, in order
	tie(p.cmd)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.Started = time.Now()
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	said := make(chan string, 1)
	// Ends with the output of the process; Stop waits for it.
	go p.watch(r, said)
	select {
	case p.Address = <-said:
		if p.Address != "" {
			return p, nil
		}
		err = errors.New("it ended before it was listening")
	case <-ctx.Done():
		err = ctx.Err()
	}
	stopped := p.Stop()
	return nil, errors.Join(fmt.Errorf("%s: %w; it said: %s", filepath.Base(program), err, p.Log()), stopped)
}

// keep is how many of the last lines of a process are kept.
const keep = 20

func (p *Process) watch(r io.ReadCloser, said chan<- string) {
	defer close(p.done)
	defer close(said)
	defer r.Close()
	lines := bufio.NewScanner(r)
	found := false
	for lines.Scan() {
		p.note(lines.Text())
		address, ok := strings.CutPrefix(lines.Text(), listening)
		if ok && !found {
			found = true
			said <- address
		}
	}
	// Behind a line that is too long: nobody may wait for a reader.
	_, _ = io.Copy(io.Discard, r)
	_ = p.cmd.Wait() // that it was killed is what Stop says
}

func (p *Process) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, line)
	p.last = p.last[max(0, len(p.last)-keep):]
}

// Log is the last that it said.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, "\n")
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process and returns when it has ended.
func (p *Process) Stop() error {
	// One that has ended already has nothing to be told.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	}
	err := p.cmd.Process.Kill()
	<-p.done
	return errors.Join(fmt.Errorf("%s had to be killed", filepath.Base(p.cmd.Path)), err)
}
