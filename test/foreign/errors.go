// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// RepeatErrors returns t with a log of its errors. They are printed again when everything
// that is started with it has ended, below the output of the processes.
func RepeatErrors(t testing.TB) testing.TB {
	t.Helper()
	r := &repeated{TB: t}
	t.Cleanup(r.print)
	return r
}

// repeated implements [testing.TB]. It is safe for concurrent use, like t.
type repeated struct {
	testing.TB

	mu    sync.Mutex
	lines []string
}

func (r *repeated) print() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) > 0 {
		r.Logf("the errors again:\n%s", strings.Join(r.lines, "\n"))
	}
}

func (r *repeated) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, strings.TrimSuffix(line, "\n"))
}

func (r *repeated) Error(args ...any) {
	r.Helper()
	r.add(fmt.Sprintln(args...))
	r.TB.Error(args...)
}

func (r *repeated) Errorf(format string, args ...any) {
	r.Helper()
	r.add(fmt.Sprintf(format, args...))
	r.TB.Errorf(format, args...)
}

func (r *repeated) Fatal(args ...any) {
	r.Helper()
	r.add(fmt.Sprintln(args...))
	r.TB.Fatal(args...)
}

func (r *repeated) Fatalf(format string, args ...any) {
	r.Helper()
	r.add(fmt.Sprintf(format, args...))
	r.TB.Fatalf(format, args...)
}
