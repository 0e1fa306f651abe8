// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// refEvents is a simple second implementation of the WHATWG event stream grammar: it
// splits the whole stream into lines, and handles each line by the steps of the
// specification. It has no limit.
func refEvents(stream string) (events []Event, lastID string) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream), "\n")
	lines = lines[:len(lines)-1] // not ended

	var e Event
	var data *string
	begin := func() { e, data = Event{Name: "message", Retry: -1}, nil }
	begin()
	for _, line := range lines {
		if line == "" {
			if data != nil {
				// "If the data buffer's last character is a U+000A LINE FEED (LF)
				// character, then remove the last character from the data buffer."
				e.Data = []byte(strings.TrimSuffix(*data, "\n"))
			}
			if e.HasID {
				lastID = e.ID
			}
			if e.Data != nil || e.HasID || e.Retry >= 0 {
				events = append(events, e)
			}
			begin()
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.Name = value
			if value == "" {
				e.Name = "message"
			}
		case "data":
			if data == nil {
				data = new(string)
			}
			*data += value + "\n"
		case "id":
			if !strings.Contains(value, "\x00") {
				e.ID, e.HasID = value, true
			}
		case "retry":
			if value == "" || strings.Trim(value, "0123456789") != "" {
				break
			}
			const most = uint64(math.MaxInt64 / time.Millisecond)
			n, _ := strconv.ParseUint(value, 10, 64) // out of range gives the maximum
			e.Retry = time.Duration(min(n, most)) * time.Millisecond
		}
	}
	return events, lastID
}

// cutReader returns a stream in pieces: up to each of the cuts, in order.
type cutReader struct {
	data []byte
	cuts []int
	at   int
}

func newCut(stream string, cuts ...int) *cutReader {
	return &cutReader{data: []byte(stream), cuts: cuts}
}

func (r *cutReader) Read(p []byte) (int, error) {
	for len(r.cuts) > 0 && r.cuts[0] <= r.at {
		r.cuts = r.cuts[1:]
	}
	end := len(r.data)
	if len(r.cuts) > 0 {
		end = min(r.cuts[0], end)
	}
	n := copy(p, r.data[r.at:end])
	r.at += n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// readings returns the stream whole, cut in two at every offset, and in single bytes.
func readings(stream string) []io.Reader {
	all := []io.Reader{newCut(stream)}
	var each []int
	for i := 1; i < len(stream); i++ {
		all = append(all, newCut(stream, i))
		each = append(each, i)
	}
	return append(all, newCut(stream, each...))
}

// readEvents reads to the end. An event over the limit appears in the list with the
// name "too long" and the head as its data.
func readEvents(t testing.TB, r io.Reader, limit int) (events []Event, lastID string) {
	t.Helper()
	er := NewEventReader(r, limit)
	for {
		e, err := er.Next()
		var long *TooLongError
		switch {
		case errors.As(err, &long):
			e = Event{Name: "too long", Data: long.Head, Retry: -1}
		case errors.Is(err, io.EOF):
			return events, er.LastID()
		case err != nil:
			t.Fatalf("Next: %v", err)
		}
		events = append(events, e)
	}
}

// refLines is a simple second implementation of splitting into lines.
func refLines(stream string, limit int) []string {
	var lines []string
	for line := range strings.SplitSeq(stream, "\n") {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case len(line) > limit:
			lines = append(lines, "too long: "+line[:min(limit, headSize)])
		case line != "":
			lines = append(lines, line)
		}
	}
	return lines
}

func readLines(t testing.TB, r io.Reader, limit int) []string {
	t.Helper()
	lr := NewLineReader(r, limit)
	var lines []string
	for {
		line, err := lr.Next()
		var long *TooLongError
		switch {
		case errors.As(err, &long):
			line = append([]byte("too long: "), long.Head...)
		case errors.Is(err, io.EOF):
			return lines
		case err != nil:
			t.Fatalf("Next: %v", err)
		}
		lines = append(lines, string(bytes.Clone(line)))
	}
}

// refCuts is refLines with long lines cut, followed by the number of cut bytes.
func refCuts(stream string, limit int) []string {
	var lines []string
	for line := range strings.SplitSeq(stream, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line != "" {
			n := min(len(line), limit)
			lines = append(lines, fmt.Sprintf("%s-%d", line[:n], len(line)-n))
		}
	}
	return lines
}

func readCuts(t testing.TB, r io.Reader, limit int) []string {
	t.Helper()
	lr := NewLineReader(r, limit)
	var lines []string
	for {
		line, cut, err := lr.NextCut()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatalf("NextCut: %v", err)
		}
		lines = append(lines, fmt.Sprintf("%s-%d", line, cut))
	}
}
