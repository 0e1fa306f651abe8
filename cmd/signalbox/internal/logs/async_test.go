// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

func TestAsyncWriterWritesInOrder(t *testing.T) {
	t.Parallel()
	var out commandtest.Buffer
	j := NewAsyncWriter(&out)
	var want strings.Builder
	for i := range 1000 {
		fmt.Fprintf(j, "record %d\n", i)
		fmt.Fprintf(&want, "record %d\n", i)
	}
	j.Close()
	if got := out.String(); got != want.String() {
		t.Errorf("got %d bytes, want %d", len(got), want.Len())
	}
}

// A paused terminal, or a pipe that is not read, causes the loss of records but blocks no
// call: FAULTS, "log pipe blocked".
func TestAsyncWriterNeverBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		j := NewAsyncWriter(w)
		fmt.Fprintln(j, "the first is being written")
		synctest.Wait() // run blocks in its write
		record := strings.Repeat("x", 1023) + "\n"
		for range logBufferSize/len(record) + 7 {
			if n, err := io.WriteString(j, record); n != len(record) || err != nil {
				t.Fatalf("a write returned %d, %v", n, err)
			}
		}
		read := make(chan string, 1)
		go func() {
			all, _ := io.ReadAll(r)
			read <- string(all)
		}()
		synctest.Wait() // the missing records are reported without a further record
		j.Close()
		w.Close()
		all := <-read
		if want := "x\nsignalbox: 7 records of the log dropped, because standard error was not read\n"; !strings.HasSuffix(all, want) {
			t.Errorf("it ended with %q, want %q", all[max(0, len(all)-200):], want)
		}
		if got := strings.Count(all, record); got != logBufferSize/len(record) {
			t.Errorf("%d records were kept, want %d", got, logBufferSize/len(record))
		}
	})
}

// close does not wait forever for a reader that does not read.
func TestAsyncWriterClosesWithoutReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		j := NewAsyncWriter(w)
		fmt.Fprintln(j, "nobody reads this")
		start := time.Now()
		j.Close()
		if waited := time.Since(start); waited != logFlushTimeout {
			t.Errorf("close waited %v, want %v", waited, logFlushTimeout)
		}
		r.Close() // ends the blocked write, too
		<-j.ended
	})
}

// brokenWriter fails, and counts its calls.
type brokenWriter struct{ tried int }

func (w *brokenWriter) Write([]byte) (int, error) {
	w.tried++
	return 0, errors.New("the reader went away")
}

// An error of the writer does not end the output: it may be a file on a disk that is full
// temporarily.
func TestAsyncWriterContinuesAfterErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w brokenWriter
		j := NewAsyncWriter(&w)
		for range 3 {
			if _, err := fmt.Fprintln(j, "x"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		j.Close()
		if w.tried < 3 {
			t.Errorf("tried %d times, want at least 3", w.tried)
		}
	})
}

func TestAsyncWriterWithoutText(t *testing.T) {
	t.Parallel()
	var out commandtest.Buffer
	NewAsyncWriter(&out).Close()
	if got := out.String(); got != "" {
		t.Errorf("wrote %q", got)
	}
}
