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

// Usage is what a process has used so far, as the operating system counts it.
type Usage struct {
	CPU         time.Duration
	RSS, Peak   uint64 // bytes in memory, now and at most
	Descriptors int
}

// Usage reads what the process has used.
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

// cpuTime is the time that all threads of a process have had, in nanoseconds: what
// stands in its stat is counted in ticks of a hundredth of a second. The threads of a
// Go program do not end, so none is missing.
func cpuTime(pid int) (time.Duration, error) {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, thread := range threads {
		s, err := thread.Schedstat()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended since
		}
		if err != nil {
			return 0, err
		}
		sum += s.RunningNanoseconds
	}
	return time.Duration(sum), nil
}

// ResetPeak has the peak begin anew.
func (p *Process) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0)
}

// Runtime is what the Go runtime of a process has counted.
type Runtime struct {
	Mallocs, Bytes float64 // objects and bytes allocated since it started
	Heap, Stacks   float64 // bytes, now
	Goroutines     int
	Collections    int // of garbage; 0 where the process does not say
}

// collections is what the gateway counts them under.
const collections = "go_gc_duration_seconds_count"

// ReadRuntime reads the counts that the process shows at a URL.
func ReadRuntime(ctx context.Context, url string) (Runtime, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Runtime{}, err
	}
	// A connection for each reading: one that is kept would be counted.
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
			return Runtime{}, fmt.Errorf("%s does not show %s", url, name)
		}
	}
	return Runtime{
		Mallocs: found[counts.Mallocs], Bytes: found[counts.Bytes],
		Heap: found[counts.Heap], Stacks: found[counts.Stacks],
		Goroutines:  int(found[counts.Goroutines]),
		Collections: int(found[collections]),
	}, nil
}

// Descriptors raises how many descriptors this process may have, and those that it
// starts, as far as the system allows, and returns how many that is.
func Descriptors() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = limit.Max
	return int(limit.Max), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
