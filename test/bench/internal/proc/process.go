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

// grace is how long a process may take to end after SIGTERM.
const grace = 10 * time.Second

// Process is a running program.
type Process struct {
	// Address is the address that the process listens on.
	Address string
	// Started is the start time.
	Started time.Time

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and its output is read

	mu   sync.Mutex
	last []string
}

// listening precedes the address in a program's output.
const listening = "listening on "

// Start starts a program and waits until it prints, on either output, that it is "listening
// on" an address. The caller must end it with Stop.
func Start(ctx context.Context, program string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(program, args...), done: make(chan struct{})} //nolint:gosec,noctx // Stop ends it in order
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
		err = errors.New("the program ended before it was listening")
	case <-ctx.Done():
		err = ctx.Err()
	}
	stopped := p.Stop()
	return nil, errors.Join(fmt.Errorf("%s: %w; output: %s", filepath.Base(program), err, p.Log()), stopped)
}

// keep is the number of a process's last output lines that are kept.
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
	// After an overlong line: the process must not block on a full pipe.
	_, _ = io.Copy(io.Discard, r)
	_ = p.cmd.Wait() // Stop reports whether it was killed
}

func (p *Process) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, line)
	p.last = p.last[max(0, len(p.last)-keep):]
}

// Log returns the last output lines.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, "\n")
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process and returns when it has ended.
func (p *Process) Stop() error {
	// A process that has already ended needs no signal.
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
