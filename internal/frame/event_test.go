// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const noRetry = -1

func event(data string) Event {
	return Event{Name: "message", Data: []byte(data), Retry: noRetry}
}

func eventCases() []struct {
	name, stream string
	want         []Event
	lastID       string
} {
	return []struct {
		name, stream string
		want         []Event
		lastID       string
	}{
		{name: "nothing", stream: ""},
		{name: "LF", stream: "data: a\n\ndata: b\n\n", want: []Event{event("a"), event("b")}},
		{name: "CR", stream: "data: a\r\rdata: b\r\r", want: []Event{event("a"), event("b")}},
		{name: "CRLF", stream: "data: a\r\n\r\ndata: b\r\n\r\n", want: []Event{event("a"), event("b")}},
		{name: "mixed ends", stream: "data: a\r\n\rdata: b\n\r\ndata: c\r\r\ndata: d\r\n\n", want: []Event{event("a"), event("b"), event("c"), event("d")}},
		{name: "LF CR is two ends", stream: "data: a\n\rdata: b\n\n", want: []Event{event("a"), event("b")}},
		{name: "byte order mark", stream: "\ufeffdata: a\n\n", want: []Event{event("a")}},
		{name: "only one mark is taken away", stream: "\ufeff\ufeffdata: a\n\n"},
		{name: "half a mark is none", stream: "\xef\xbbdata: a\n\ndata: b\n\n", want: []Event{event("b")}},
		{name: "only a mark", stream: "\ufeff"},
		{name: "a mark later on", stream: "data: a\n\n\ufeffdata: b\n\n", want: []Event{event("a")}},
		{name: "no event field", stream: "data: {}\n\n", want: []Event{event("{}")}},
		{name: "event field", stream: "event: message\ndata: {}\n\n", want: []Event{event("{}")}},
		{name: "empty event field", stream: "event: ping\nevent:\ndata: {}\n\n", want: []Event{event("{}")}},
		{name: "endpoint", stream: "event: endpoint\ndata: /m\n\n", want: []Event{{Name: "endpoint", Data: []byte("/m"), Retry: noRetry}}},
		{name: "the name does not stay", stream: "event: x\n\ndata: a\n\n", want: []Event{event("a")}},
		{name: "one value over two data lines", stream: "data: {\"a\":\ndata: 1}\n\n", want: []Event{event("{\"a\":\n1}")}},
		{name: "many data lines", stream: "data: a\n: x\ndata:\nid: 1\ndata\ndata:b\n\n", want: []Event{{Name: "message", ID: "1", HasID: true, Data: []byte("a\n\n\nb"), Retry: noRetry}}, lastID: "1"},
		{name: "one space is taken away", stream: "data:  a \n\n", want: []Event{event(" a ")}},
		{name: "no space", stream: "data:a\n\n", want: []Event{event("a")}},
		{name: "a tab is no space", stream: "data:\ta\n\n", want: []Event{event("\ta")}},
		{name: "colons in the value", stream: "data: a:b: c\n\n", want: []Event{event("a:b: c")}},
		{name: "data without a colon", stream: "data\n\n", want: []Event{event("")}},
		{name: "two of them", stream: "data\ndata\n\n", want: []Event{event("\n")}},
		{name: "names are exact", stream: "Data: a\n data: b\ndata : c\ndatax: d\n\ndata: e\n\n", want: []Event{event("e")}},
		{name: "comments", stream: ": hello\n\n:\n\n:data: x\n\ndata: a\n: in between\n\n", want: []Event{event("a")}},
		{name: "only blank lines", stream: "\n\r\n\r\r\n\n"},
		{name: "priming", stream: "id: 7\ndata:\n\n", want: []Event{{Name: "message", ID: "7", HasID: true, Data: []byte{}, Retry: noRetry}}, lastID: "7"},
		{name: "id alone", stream: "id: 7\n\n", want: []Event{{Name: "message", ID: "7", HasID: true, Retry: noRetry}}, lastID: "7"},
		{name: "id with NUL", stream: "id: 6\n\nid: a\x00b\ndata: a\n\n", want: []Event{{Name: "message", ID: "6", HasID: true, Retry: noRetry}, event("a")}, lastID: "6"},
		{name: "the last of two ids", stream: "id: 1\nid: 2\ndata: a\n\n", want: []Event{{Name: "message", ID: "2", HasID: true, Data: []byte("a"), Retry: noRetry}}, lastID: "2"},
		{name: "the id stays", stream: "id: 1\ndata: a\n\ndata: b\n\n", want: []Event{{Name: "message", ID: "1", HasID: true, Data: []byte("a"), Retry: noRetry}, event("b")}, lastID: "1"},
		{name: "an empty id takes it back", stream: "id: 1\ndata: a\n\nid\ndata: b\n\n", want: []Event{{Name: "message", ID: "1", HasID: true, Data: []byte("a"), Retry: noRetry}, {Name: "message", HasID: true, Data: []byte("b"), Retry: noRetry}}},
		{name: "retry alone", stream: "retry: 3000\n\n", want: []Event{{Name: "message", Retry: 3 * time.Second}}},
		{name: "retry 0", stream: "retry: 0\ndata: a\n\n", want: []Event{{Name: "message", Data: []byte("a")}}},
		{name: "retry is digits only", stream: "retry: 1s\nretry: -1\nretry: +1\nretry: 1.5\nretry\nretry:  7\nretry: 1_0\n\n"},
		{name: "retry beyond all measure", stream: "retry: 99999999999999999999999999\n\n", want: []Event{{Name: "message", Retry: 9223372036854 * time.Millisecond}}},
		{name: "retry that is not digits to the end", stream: "retry: 99999999999999999999999999s\n\n"},
		{name: "event with nothing to say", stream: "event: ping\n\ndata: a\n\n", want: []Event{event("a")}},
		{name: "ping with data", stream: "event: ping\ndata: x\n\n", want: []Event{{Name: "ping", Data: []byte("x"), Retry: noRetry}}},
		{name: "incomplete at the end: no blank line", stream: "data: a\n\nid: 9\ndata: b\n", want: []Event{event("a")}},
		{name: "incomplete at the end: half a line", stream: "data: a\n\nid: 9\ndata: b", want: []Event{event("a")}},
		{name: "bytes that are no UTF-8", stream: "data: \xff\xfe\n\n", want: []Event{event("\xff\xfe")}},
		{name: "NUL in data", stream: "data: a\x00b\n\n", want: []Event{event("a\x00b")}},
	}
}

func TestEventReader(t *testing.T) {
	for _, tt := range eventCases() {
		t.Run(tt.name, func(t *testing.T) {
			if ref, lastID := refEvents(tt.stream); !cmp.Equal(ref, tt.want) || lastID != tt.lastID {
				t.Fatalf("the reference parser disagrees: last id %q, %s", lastID, cmp.Diff(ref, tt.want))
			}
			for i, r := range readings(tt.stream) {
				got, lastID := readEvents(t, r, 100)
				if diff := cmp.Diff(got, tt.want); diff != "" {
					t.Fatalf("reading %d (-got +want):\n%s", i, diff)
				}
				if lastID != tt.lastID {
					t.Errorf("reading %d: LastID = %q, want %q", i, lastID, tt.lastID)
				}
			}
		})
	}
}

// Every pair of the streams above, the second one with a buffer that the first one has
// used.
func TestEventReaderPairs(t *testing.T) {
	for _, a := range eventCases() {
		for _, b := range eventCases() {
			stream := a.stream + "\n\n" + b.stream
			want, wantID := refEvents(stream)
			got, lastID := readEvents(t, newCut(stream, len(a.stream), len(a.stream)+1), 1000)
			if diff := cmp.Diff(got, want); diff != "" || lastID != wantID {
				t.Errorf("%s, %s: last id %q, want %q (-got +want):\n%s", a.name, b.name, lastID, wantID, diff)
			}
		}
	}
}

// A line that ends with CR must not wait for the next byte, which may arrive much
// later.
func TestEventReaderDoesNotWaitForLF(t *testing.T) {
	pr, pw := io.Pipe()
	defer pr.Close()
	sent := make(chan error, 1)
	// Ends with the write, which the reads below take.
	go func() {
		_, err := pw.Write([]byte("data: a\r\r"))
		sent <- err
	}()
	r := NewEventReader(pr, 100)
	if e, err := r.Next(); err != nil || string(e.Data) != "a" {
		t.Errorf("Next = %q, %v", e.Data, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestEventReaderLimit(t *testing.T) {
	long := func(head string) Event {
		return Event{Name: "too long", Data: []byte(head), Retry: noRetry}
	}
	ten := "0123456789"
	tests := []struct {
		name, stream string
		want         []Event
	}{
		{"as long as may be", "data: " + ten + "\n\n", []Event{event(ten)}},
		{"one more", "data: " + ten + "X\n\ndata: b\n\n", []Event{long(ten), event("b")}},
		{"one more without the space", "data:" + ten + "X\n\ndata: b\n\n", []Event{long(ten), event("b")}},
		{"much more", "data: " + ten + ten + ten + "\n\ndata: b\n\n", []Event{long(ten), event("b")}},
		{"in lines, as long as may be", "data: 01234\ndata: 6789\n\n", []Event{event("01234\n6789")}},
		{"in lines, one more", "data: 01234\ndata: 56789\ndata: x\n\ndata: b\n\n", []Event{long("01234"), event("b")}},
		{"empty lines count", "data: 0123456789\ndata\n\ndata: b\n\n", []Event{long(ten), event("b")}},
		{"the rest has fields", "data: " + ten + "X\nid: 1\nevent: x\ndata: y\n\ndata: b\n\n", []Event{long(ten), event("b")}},
		{"the rest is CR", "data: " + ten + "X\rdata: y\r\rdata: b\r\r", []Event{long(ten), event("b")}},
		{"the rest is CRLF", "data: " + ten + "X\r\ndata: y\r\n\r\ndata: b\r\n\r\n", []Event{long(ten), event("b")}},
		{"the rest does not end", "data: " + ten + "X\ndata: y\n", []Event{long(ten)}},
		{"the line does not end", "data: " + ten + ten, []Event{long(ten)}},
		{"a line of another field", "id: " + ten + ten + "\n\ndata: b\n\n", []Event{long("id: 012345"), event("b")}},
		{"a comment", ":" + ten + ten + "\n\ndata: b\n\n", []Event{long(":012345678"), event("b")}},
		{"two in a row", "data: " + ten + "X\n\ndata: " + ten + "Y\n\ndata: b\n\n", []Event{long(ten), long(ten), event("b")}},
		{"fields before do not stay", "id: 1\nevent: x\ndata: " + ten + "X\n\ndata: b\n\n", []Event{long(ten), event("b")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i, r := range readings(tt.stream) {
				got, lastID := readEvents(t, r, len(ten))
				if diff := cmp.Diff(got, tt.want); diff != "" {
					t.Fatalf("reading %d (-got +want):\n%s", i, diff)
				}
				if lastID != "" {
					t.Errorf("LastID = %q: the id of an event that was not returned", lastID)
				}
			}
		})
	}
}

// Sizes around those of the buffer, so that the held bytes move in all ways.
func TestEventReaderSizes(t *testing.T) {
	var sizes []int
	for _, n := range []int{0, firstRead / 2, firstRead, keptSize / 2, keptSize, 3 * keptSize, 200_000} {
		sizes = append(sizes, max(0, n-13), n, n+1, n+13)
	}
	var stream strings.Builder
	for i, n := range sizes {
		fmt.Fprintf(&stream, "id: %d\r\ndata: %s\r\n: c\r\ndata: %s\r\n\r\n: alive\r\n\r\n", i, strings.Repeat("a", n), strings.Repeat("b", n/3))
	}
	want, wantID := refEvents(stream.String())
	for name, r := range map[string]io.Reader{
		"whole":          strings.NewReader(stream.String()),
		"half":           iotest.HalfReader(strings.NewReader(stream.String())),
		"bytes":          iotest.OneByteReader(strings.NewReader(stream.String())),
		"data and error": iotest.DataErrReader(strings.NewReader(stream.String())),
	} {
		got, lastID := readEvents(t, r, 300_000)
		if !reflect.DeepEqual(got, want) || lastID != wantID { // cmp takes seconds
			t.Errorf("%s: %d events, want %d, or not the same; last id %q, want %q", name, len(got), len(want), lastID, wantID)
		}
	}
}

// A returned event belongs to the caller: neither later reads nor an append to one
// event change another.
func TestEventReaderOwnership(t *testing.T) {
	for _, size := range []int{10, 2 * keptSize} {
		one := "data: " + strings.Repeat("x", size) + "\n\n"
		r := NewEventReader(strings.NewReader(strings.Repeat(one, 50)), size)
		var events [][]byte
		for range 50 {
			e, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			clear(e.Data)
			events = append(events, append(e.Data, "tail"...))
		}
		for i, data := range events {
			if len(data) != size+4 || strings.Trim(string(data[:size]), "\x00") != "" || string(data[size:]) != "tail" {
				t.Errorf("size %d: event %d was written to", size, i)
			}
		}
	}
}

func TestEventReaderErrors(t *testing.T) {
	broken := errors.New("connection reset")
	stream := io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken))
	r := NewEventReader(stream, 100)
	if e, err := r.Next(); err != nil || string(e.Data) != "a" {
		t.Fatalf("Next = %q, %v", e.Data, err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, broken) {
			t.Errorf("Next = %v, want %v, each time", err, broken)
		}
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

func TestEventReaderNoProgress(t *testing.T) {
	if _, err := NewEventReader(idleReader{}, 100).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("Next = %v, want %v", err, io.ErrNoProgress)
	}
}

// An endless stream of short lines, with one kind of line end, in a large buffer: the
// search for the other kind must not start again for each line, which would take
// minutes.
func TestEventReaderIsLinear(t *testing.T) {
	for _, eol := range []string{"\r", "\n"} {
		stream := "data: x" + eol + strings.Repeat("data"+eol, 1<<20) + eol
		got, _ := readEvents(t, strings.NewReader(stream), 8<<20)
		if len(got) != 1 || len(got[0].Data) != 1+1<<20 {
			t.Errorf("%q: %d events", eol, len(got))
		}
	}
}

// A large event leaves a small buffer.
func TestEventReaderShrinks(t *testing.T) {
	stream := "data: " + strings.Repeat("x", 1<<20) + "\n\ndata: a\n\n"
	r := NewEventReader(strings.NewReader(stream), 2<<20)
	for {
		if _, err := r.Next(); err != nil {
			break
		}
	}
	if got := cap(r.b.buf); got > keptSize {
		t.Errorf("an idle reader holds %d bytes, want at most %d", got, keptSize)
	}
}

func TestEventReaderMemoryOverLimit(t *testing.T) {
	const limit = 64 << 10
	stream := io.MultiReader(strings.NewReader("data: "), io.LimitReader(zeros{}, 64<<20), strings.NewReader("\n\ndata: b\n\n"))
	r := NewEventReader(stream, limit)
	if _, err := r.Next(); !errors.As(err, new(*TooLongError)) {
		t.Fatalf("Next = %v, want a TooLongError", err)
	}
	e, err := r.Next()
	if err != nil || string(e.Data) != "b" {
		t.Errorf("Next = %q, %v", e.Data, err)
	}
	if got := cap(r.b.buf); got > 4*limit {
		t.Errorf("the buffer grew to %d for a limit of %d", got, limit)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestTooLongErrorText(t *testing.T) {
	err := &TooLongError{Limit: 10}
	if got, want := err.Error(), "message longer than the limit of 10 bytes"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}
