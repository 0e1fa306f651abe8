// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// record returns the record with a number, of some length.
func record(n, length int) string {
	text := fmt.Sprintf(`{"msg":"m","n":%06d,"pad":"`, n)
	return text + strings.Repeat("x", length-len(text)-len("\"}\n")) + "\"}\n"
}

func noFlush() {}

func read(t *testing.T, j *Journal) string {
	t.Helper()
	var b bytes.Buffer
	if err := j.Read(&b, false, noFlush, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestJournalInMemory(t *testing.T) {
	j := New()
	defer j.End()
	if got := read(t, j); got != "" {
		t.Errorf("empty: %q", got)
	}
	const length = 1 << 10
	var all strings.Builder
	for i := range 3 * maxMemory / length {
		line := record(i, length)
		if n, err := j.Write([]byte(line)); n != length || err != nil {
			t.Fatal(n, err)
		}
		all.WriteString(line)
	}
	want := all.String()
	if got := read(t, j); got != want[len(want)-maxMemory:] {
		t.Errorf("got %d bytes, want the last %d", len(got), maxMemory)
	}
	// A record that is larger than the bound is kept alone.
	large := record(1, maxMemory+1)
	_, _ = j.Write([]byte(large))
	if got := read(t, j); got != large {
		t.Errorf("got %d bytes, want the large record", len(got))
	}
}

// A writer keeps its own buffer.
func TestJournalCopiesRecords(t *testing.T) {
	j := New()
	line := []byte("one\n")
	_, _ = j.Write(line)
	copy(line, "two\n")
	if got := read(t, j); got != "one\n" {
		t.Errorf("got %q", got)
	}
}

// A reader that follows gets each record once, in order, until the end of the journal. If it
// is too slow, it gets the number of those that it has missed.
func TestJournalFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New()
		_, _ = io.WriteString(j, "a\n")
		r, w := io.Pipe()
		flushes := 0
		ended := make(chan error)
		go func() { ended <- j.Read(w, true, func() { flushes++ }, nil) }()
		buf := make([]byte, 2*maxMemory)
		next := func() string {
			n, _ := r.Read(buf)
			return string(buf[:n])
		}
		if got := next(); got != "a\n" {
			t.Errorf("got %q", got)
		}
		synctest.Wait()
		_, _ = io.WriteString(j, "b\n")
		synctest.Wait() // the reader is blocked in its write of b
		for i := range 2 * maxMemory / 1024 {
			_, _ = io.WriteString(j, record(i, 1024))
		}
		if got := next(); got != "b\n" {
			t.Errorf("got %q", got)
		}
		if got := next(); !strings.Contains(got, `"msg":"log records missing: they were not read in time","count":512}`+"\n"+record(512, 1024)) {
			t.Errorf("got %.200q", got)
		}
		go func() { _, _ = io.Copy(io.Discard, r) }()
		j.End()
		if err := <-ended; err != nil || flushes == 0 {
			t.Errorf("ended with %v after %d flushes", err, flushes)
		}
		_ = w.Close()
		_, _ = io.WriteString(j, "late\n")
		if got := read(t, j); strings.Contains(got, "late") {
			t.Error("a record after the end was kept")
		}

		// done ends a reader, too.
		other, done := New(), make(chan struct{})
		go func() { ended <- other.Read(io.Discard, true, noFlush, done) }()
		synctest.Wait()
		close(done)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The files have the last records, each once, within their bound. They can be read while they
// are written, and after the end.
func TestJournalFiles(t *testing.T) {
	folder := t.TempDir()
	j := New()
	_, _ = io.WriteString(j, record(0, 100))
	if err := j.Save(folder, "one"); err != nil {
		t.Fatal(err)
	}
	const length, count = 10_000, 600
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var b bytes.Buffer
			if err := j.Read(&b, true, noFlush, nil); err != nil {
				t.Error(err)
			}
			last := -1
			for line := range strings.Lines(b.String()) {
				var n int
				if strings.Contains(line, "missing") {
					t.Log("a reader was too slow")
					continue
				}
				if _, err := fmt.Sscanf(line, `{"msg":"m","n":%d,`, &n); err != nil || n <= last {
					t.Errorf("record %d after %d, %v", n, last, err)
				}
				last = n
			}
			if last != count {
				t.Errorf("the last record is %d, want %d", last, count)
			}
		})
	}
	for i := range count {
		// Not faster than the disk, so that no record is missing.
		_, _ = io.WriteString(j, record(i+1, length))
		awaitSaved(j)
	}
	j.End()
	readers.Wait()
	saved := List(folder)
	if len(saved) != 1 || saved[0].Name != "one" {
		t.Fatalf("listed %v", saved)
	}
	var b bytes.Buffer
	if err := saved[0].Copy(&b); err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(b.String()))
	first := count + 1 - len(lines)
	if b.Len() < 3*maxFile || b.Len() > 4*maxFile {
		t.Errorf("%d bytes are kept", b.Len())
	}
	for i, line := range lines {
		if line != record(first+i, length) {
			t.Fatalf("line %d of %d is not record %d", i, len(lines), first+i)
		}
	}
	for i, name := range []string{"one.log", "one.log.1", "one.log.2", "one.log.3"} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil || info.Size() > maxFile || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("file %d: %v, %v", i, info, err)
		}
	}
	saved[0].Remove()
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// awaitSaved waits until the files have all records.
func awaitSaved(j *Journal) {
	for {
		j.mu.Lock()
		behind := j.saved < j.first+uint64(len(j.records))
		j.mu.Unlock()
		if !behind {
			return
		}
		runtime.Gosched()
	}
}

func TestJournalWithoutFiles(t *testing.T) {
	j := New()
	if err := j.Save(filepath.Join(t.TempDir(), "none"), "x"); err == nil {
		t.Error("saved in a missing folder")
	}
	j.End()
	j.End()
}

func TestFitting(t *testing.T) {
	long := strings.Repeat("x", maxFile) + "\n"
	for _, tt := range []struct {
		lines string
		space int64
		want  int
	}{
		{"a\nb\n", 4, 4},
		{"a\nb\n", 3, 2},
		{"a\nb\n", 1, 0},
		{"a\nb\n", 0, 0},
		{"a\nb\n", -5, 0},
		{long + "b\n", maxFile, len(long)},
		{long + "b\n", maxFile - 1, 0},
	} {
		if got := fitting([]byte(tt.lines), tt.space); got != tt.want {
			t.Errorf("%d bytes in %d: %d, want %d", len(tt.lines), tt.space, got, tt.want)
		}
	}
}
