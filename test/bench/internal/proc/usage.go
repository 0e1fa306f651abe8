// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/counts"
)

// Usage is the resource usage of a process so far, counted by the operating system.
type Usage struct {
	CPU         time.Duration
	RSS, Peak   uint64 // resident bytes, now and at most
	Descriptors int
}

// Usage reads the resource usage of the process.
func (p *Process) Usage() (Usage, error) {
	proc, err := procfs.NewProc(p.PID())
	if err != nil {
		return Usage{}, err
	}
	status, err := proc.NewStatus()
	if err != nil {
		return Usage{}, err
	}
	cpu, err := cpuTime(p.PID())
	if err != nil {
		return Usage{}, err
	}
	fds, err := proc.FileDescriptorsLen()
	return Usage{CPU: cpu, RSS: status.VmRSS, Peak: status.VmHWM, Descriptors: fds}, err
}

// cpuTime returns the CPU time of all threads of a process. It sums the threads, because
// the process's own stat counts in hundredths of a second. The threads of a Go program do
// not end, so none is missing.
func cpuTime(pid int) (time.Duration, error) {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, thread := range threads {
		s, err := thread.Schedstat()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		sum += s.RunningNanoseconds
	}
	return time.Duration(sum), nil
}

// ResetPeak resets the peak of the resident memory.
func (p *Process) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
}

// Runtime has counters of the Go runtime of a process.
type Runtime struct {
	Mallocs, Bytes float64 // objects and bytes allocated since the start
	Heap, Stacks   float64 // bytes, now
	Goroutines     int
	Collections    int // of garbage; 0 if the process does not report them
}

// collections is the gateway's metric for them.
const collections = "go_gc_duration_seconds_count"

// ReadRuntime reads the counters that the process serves at a URL.
func ReadRuntime(ctx context.Context, url string) (Runtime, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Runtime{}, err
	}
	// One connection per reading: a persistent one would be counted.
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return Runtime{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Runtime{}, fmt.Errorf("%s: %s", url, resp.Status)
	}
	found, err := counts.Parse(resp.Body)
	if err != nil {
		return Runtime{}, err
	}
	for _, name := range []string{counts.Mallocs, counts.Bytes, counts.Heap, counts.Stacks, counts.Goroutines} {
		if _, ok := found[name]; !ok {
			return Runtime{}, fmt.Errorf("%s does not serve %s", url, name)
		}
	}
	return Runtime{
		Mallocs: found[counts.Mallocs], Bytes: found[counts.Bytes],
		Heap: found[counts.Heap], Stacks: found[counts.Stacks],
		Goroutines:  int(found[counts.Goroutines]),
		Collections: int(found[collections]),
	}, nil
}

// Descriptors raises the descriptor limit of this process and its children as far as the
// system allows, and returns the limit.
func Descriptors() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = limit.Max
	return int(limit.Max), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
