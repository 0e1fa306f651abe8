// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package counts

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// show returns the counters that the handler serves.
func show(t *testing.T) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, nil))
	found, err := Parse(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCountsWhatIsAllocated(t *testing.T) {
	before := show(t)
	const n, size = 1000, 4096
	kept := make([][]byte, n)
	for i := range kept {
		kept[i] = make([]byte, size)
	}
	after := show(t)
	runtime.KeepAlive(kept)
	if got := after[Mallocs] - before[Mallocs]; got < n || got > 2*n {
		t.Errorf("%v objects, want some more than %d", got, n)
	}
	if got := after[Bytes] - before[Bytes]; got < n*size || got > 2*n*size {
		t.Errorf("%v bytes, want some more than %d", got, n*size)
	}
	if after[Heap] < n*size || after[Stacks] <= 0 || after[Goroutines] < 1 {
		t.Errorf("heap %v, stacks %v, goroutines %v", after[Heap], after[Stacks], after[Goroutines])
	}
}

func TestParse(t *testing.T) {
	const text = "# HELP a what it is\n# TYPE a gauge\na 1.5e+06\nb{x=\"y\"} 2\nc 3\n"
	found, err := Parse(strings.NewReader(text))
	if err != nil || len(found) != 2 || found["a"] != 1.5e6 || found["c"] != 3 {
		t.Errorf("got %v and %v", found, err)
	}
	if _, err := Parse(strings.NewReader("a x\n")); err == nil {
		t.Error("no error for a value that is none")
	}
}
