// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
	"time"
)

// pipe returns both ends of a pipe, which are closed when the test ends.
func pipe(t *testing.T) (r io.Reader, from, to *os.File) {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		from.Close()
		to.Close()
	})
	return NewReader(from), from, to
}

// TestReaderReadsAll writes data that is read at once, and data after the window.
func TestReaderReadsAll(t *testing.T) {
	r, _, to := pipe(t)
	go func() { // ends with its writes
		defer to.Close()
		for _, piece := range []string{"at once, ", "and ", "late"} {
			if piece == "late" {
				<-time.After(3 * window)
			}
			if _, err := io.WriteString(to, piece); err != nil {
				t.Error(err)
			}
		}
	}()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "at once, and late" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestReaderSaysWhyNot reads from a file that is closed on this side.
func TestReaderSaysWhyNot(t *testing.T) {
	r, from, _ := pipe(t)
	from.Close()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("error is %v; want %v", err, fs.ErrClosed)
	}
}

// TestReaderOfNoFile checks that a reader without a descriptor is returned unmodified.
func TestReaderOfNoFile(t *testing.T) {
	var b bytes.Buffer
	if r := NewReader(&b); r != io.Reader(&b) {
		t.Errorf("reader is %T", r)
	}
}

// TestReaderAllocatesNothing checks that measuring adds no allocations to the measured
// program.
func TestReaderAllocatesNothing(t *testing.T) {
	r, _, to := pipe(t)
	b := make([]byte, 8)
	n := testing.AllocsPerRun(100, func() {
		if _, err := to.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for a read", n)
	}
}
