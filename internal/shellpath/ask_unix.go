// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package shellpath

import (
	"bytes"
	"context"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// The files of the user may print anything before the PATH, and at the end of the shell
// anything after it.
const (
	beginMark = "\nsignalbox-path="
	endMark   = ":signalbox-end\n"
	command   = `printf '\nsignalbox-path=%s:signalbox-end\n' "$PATH"`
)

// exitTime is how long a shell that has printed its PATH may take to end by itself.
const exitTime = 500 * time.Millisecond

// ask returns the PATH that a shell has after it has read the user's files, or "".
func ask(ctx context.Context, shell string) string {
	ctx, cancel := context.WithTimeout(ctx, shellTime)
	defer cancel()
	out := &output{ended: make(chan struct{})}
	cmd := exec.CommandContext(ctx, shell, "-lic", command)
	// Without a terminal, so that it does not take that of the command. It leads a process
	// group, which ends as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = time.Second
	cmd.Stdout = out
	if cmd.Start() != nil {
		return ""
	}
	exited := make(chan struct{})
	go func() { // ends with the shell, which is killed at the latest below
		defer close(exited)
		_ = cmd.Wait() // a shell may fail after it has printed the PATH
	}()
	select {
	case <-out.ended:
		select {
		case <-exited:
		case <-time.After(exitTime):
		}
	case <-exited:
	}
	_ = kill() // also what it has left behind, which may hold the output
	<-exited
	return out.path()
}

// maxOutput bounds what is kept of the output.
const maxOutput = 1 << 20

// output is the beginning of what a shell prints. The rest is read, so that the shell does
// not wait.
type output struct {
	ended chan struct{} // closed when nothing more is needed

	mu   sync.Mutex
	text []byte
	done bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.done {
		from := max(0, len(o.text)-len(endMark))
		o.text = append(o.text, p[:min(len(p), maxOutput-len(o.text))]...)
		if len(o.text) == maxOutput || bytes.Contains(o.text[from:], []byte(endMark)) {
			o.done = true
			close(o.ended)
		}
	}
	return len(p), nil
}

// path returns the PATH in the output, or "".
func (o *output) path() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, after, _ := bytes.Cut(o.text, []byte(beginMark))
	path, _, found := bytes.Cut(after, []byte(endMark))
	if !found {
		return ""
	}
	return string(path)
}
