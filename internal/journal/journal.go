// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the last records of a log, for those that ask for them later: in
// memory, and in a bounded number of files that outlive the process.
//
// A Journal is the writer of a log handler that writes each record as one line. A write never
// waits, neither for a reader nor for a disk: a reader that is too slow misses records, and is
// given their number.
package journal

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

// maxMemory bounds the size of the records in memory.
const maxMemory = 512 << 10

// Journal keeps records. Its methods may be called concurrently.
type Journal struct {
	mu      sync.Mutex
	records [][]byte      // the last ones, oldest first
	first   uint64        // the number of the first of records
	size    int           // of records, in bytes
	changed chan struct{} // closed and replaced after a write, and at the end
	ended   bool
	saved   position // what the files have
	saver   *saver   // nil without files
}

// position is a place in a Journal: a number of records, counted from its beginning.
type position = uint64

// New returns an empty Journal, in memory only.
func New() *Journal { return &Journal{changed: make(chan struct{})} }

// Write adds a record, which is a line with its line break. It never fails.
func (j *Journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return len(line), nil
	}
	j.records = append(j.records, bytes.Clone(line))
	j.size += len(line)
	for j.size > maxMemory && len(j.records) > 1 {
		j.size -= len(j.records[0])
		j.records[0] = nil
		j.records = j.records[1:]
		j.first++
	}
	j.noteLocked()
	return len(line), nil
}

func (j *Journal) noteLocked() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// End ends the Journal: later records are dropped, readers end after the last record, and so
// do the files, which End waits for.
func (j *Journal) End() {
	if s := j.markEnded(); s != nil {
		<-s.done
	}
}

func (j *Journal) markEnded() *saver {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended {
		j.ended = true
		j.noteLocked()
	}
	return j.saver
}

// after returns the records from a position on, and the position after them. If there are
// none, changed is closed when there are; ended reports that there will be none. Records that
// are no longer in memory are replaced by one that has their number.
func (j *Journal) after(at position) (lines []byte, next position, changed <-chan struct{}, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b bytes.Buffer
	if at < j.first {
		b.Write(missing(j.first - at))
		at = j.first
	}
	for _, line := range j.records[min(at-j.first, uint64(len(j.records))):] {
		b.Write(line)
	}
	return b.Bytes(), j.first + uint64(len(j.records)), j.changed, j.ended
}

// missing returns the record that replaces n others.
func missing(n uint64) []byte {
	return fmt.Appendf(nil, `{"time":%q,"level":"WARN","msg":"log records missing: they were not read in time","count":%d}`+"\n",
		time.Now().Format(time.RFC3339Nano), n)
}
