// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func lineCases() []struct {
	name, stream string
	want         []string
} {
	ten := "0123456789"
	return []struct {
		name, stream string
		want         []string
	}{
		{"nothing", "", nil},
		{"LF", "a\nb\n", []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
		{"no line end at the end", "a\nb", []string{"a", "b"}},
		{"CR at the end", "a\nb\r", []string{"a", "b"}},
		{"empty lines", "\n\r\n\na\n\r\n\n", []string{"a"}},
		{"CR alone is no end", "a\rb\n", []string{"a\rb"}},
		{"only one CR is taken away", "a\r\r\n", []string{"a\r"}},
		{"spaces stay", " a \n \n", []string{" a ", " "}},
		{"junk is for the caller to judge", "Listening\n{}\n", []string{"Listening", "{}"}},
		{"as long as may be", ten + "\n" + ten + "\r\n" + ten, []string{ten, ten, ten}},
		{"one more", ten + "X\nb\n", []string{"too long: " + ten, "b"}},
		{"one more, CRLF", ten + "X\r\nb\r\n", []string{"too long: " + ten, "b"}},
		{"one more, and it is a CR", ten + "\rX\nb\n", []string{"too long: " + ten, "b"}},
		{"much more", strings.Repeat(ten, 5) + "\nb\n", []string{"too long: " + ten, "b"}},
		{"two in a row", ten + ten + "\n" + ten + ten + "\nb\n", []string{"too long: " + ten, "too long: " + ten, "b"}},
		{"the long one is the last", "a\n" + ten + "X", []string{"a", "too long: " + ten}},
		{"the long one does not end", "a\n" + ten + ten, []string{"a", "too long: " + ten}},
	}
}

func TestLineReader(t *testing.T) {
	for _, tt := range lineCases() {
		t.Run(tt.name, func(t *testing.T) {
			const limit = 10
			if ref := refLines(tt.stream, limit); !cmp.Equal(ref, tt.want) {
				t.Fatalf("the reference disagrees: %s", cmp.Diff(ref, tt.want))
			}
			for i, r := range readings(tt.stream) {
				if diff := cmp.Diff(readLines(t, r, limit), tt.want); diff != "" {
					t.Fatalf("reading %d (-got +want):\n%s", i, diff)
				}
			}
		})
	}
}

// After a line of 10 MiB, over the limit, the next one is read; the memory is that of
// the limit.
func TestLineReaderTenMiB(t *testing.T) {
	const limit = 4 << 20
	stream := io.MultiReader(
		strings.NewReader(`{"jsonrpc":"2.0","id":7,"result":"`),
		io.LimitReader(zeros{}, 10<<20),
		strings.NewReader("\"}\n{}\n"),
	)
	r := NewLineReader(stream, limit)
	_, err := r.Next()
	var long *TooLongError
	if !errors.As(err, &long) || long.Limit != limit {
		t.Fatalf("Next = %v, want a TooLongError with the limit", err)
	}
	if !bytes.Contains(long.Head, []byte(`"id":7`)) || len(long.Head) > headSize {
		t.Errorf("the head is %d bytes and does not show the id: %q", len(long.Head), long.Head)
	}
	line, err := r.Next()
	if err != nil || string(line) != "{}" {
		t.Errorf("Next = %q, %v", line, err)
	}
	if got := cap(r.b.buf); got > 4*limit {
		t.Errorf("the buffer grew to %d", got)
	}
}

// Cut lines are the beginnings of the lines, and the cut bytes are counted.
func TestLineReaderCuts(t *testing.T) {
	for _, tt := range lineCases() {
		t.Run(tt.name, func(t *testing.T) {
			const limit = 10
			want := refCuts(tt.stream, limit)
			for i, r := range readings(tt.stream) {
				if diff := cmp.Diff(readCuts(t, r, limit), want); diff != "" {
					t.Fatalf("reading %d (-got +want):\n%s", i, diff)
				}
			}
		})
	}
}

func TestLineReaderCutsAtItsOwnLimit(t *testing.T) {
	const limit = 8 << 10
	stream := "a\n" + strings.Repeat("x", limit) + "\r\n" + strings.Repeat("y", 10<<20) + "\r\nb\n" + strings.Repeat("z", limit+1)
	r := NewLineReader(strings.NewReader(stream), limit)
	for _, want := range []struct{ n, cut int }{{1, 0}, {limit, 0}, {limit, 10<<20 - limit}, {1, 0}, {limit, 1}} {
		line, cut, err := r.NextCut()
		if err != nil || len(line) != want.n || cut != want.cut {
			t.Errorf("NextCut = %d bytes, %d cut off, %v; want %d, %d", len(line), cut, err, want.n, want.cut)
		}
	}
	if _, _, err := r.NextCut(); !errors.Is(err, io.EOF) {
		t.Errorf("NextCut = %v, want the end", err)
	}
	if got := cap(r.b.buf); got > 4*limit {
		t.Errorf("the buffer grew to %d", got)
	}
}

func TestLineReaderSizes(t *testing.T) {
	var stream strings.Builder
	for _, n := range []int{1, firstRead - 2, firstRead - 1, firstRead, firstRead + 1, keptSize, 3 * keptSize, 200_000, 5} {
		stream.WriteString(strings.Repeat("x", n) + "\r\n" + strings.Repeat("y", n) + "\n")
	}
	want := refLines(stream.String(), 300_000)
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(stream.String()),
		"half":  iotest.HalfReader(strings.NewReader(stream.String())),
		"bytes": iotest.OneByteReader(strings.NewReader(stream.String())),
	} {
		if got := readLines(t, r, 300_000); !cmp.Equal(got, want) {
			t.Errorf("%s: %d lines, want %d, or not the same", name, len(got), len(want))
		}
	}
}

func TestLineReaderErrors(t *testing.T) {
	broken := errors.New("file already closed")
	r := NewLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 100)
	for _, want := range []string{"a", "b"} {
		if line, err := r.Next(); err != nil || string(line) != want {
			t.Errorf("Next = %q, %v, want %q", line, err, want)
		}
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, broken) {
			t.Errorf("Next = %v, want %v, each time", err, broken)
		}
	}
}

func TestAppendLine(t *testing.T) {
	tests := []struct{ msg, want string }{
		{"{}", "{}\n"},
		{"{\n  \"a\": 1,\r\n  \"b\": \"x\\ny\"\r}\n", "{   \"a\": 1,    \"b\": \"x\\ny\" } \n"},
		{"\n\n", "  \n"},
		{"[1,\r2]", "[1, 2]\n"},
		{"", "\n"},
	}
	for _, tt := range tests {
		got := string(AppendLine([]byte("before\n"), []byte(tt.msg)))
		if got != "before\n"+tt.want {
			t.Errorf("AppendLine(%q) = %q, want %q after what was there", tt.msg, got, tt.want)
		}
		if flat := tt.want == tt.msg+"\n"; IsFlat([]byte(tt.msg)) != flat {
			t.Errorf("IsFlat(%q) = %v, want %v", tt.msg, !flat, flat)
		}
		room := append(make([]byte, 0, len(tt.msg)+1), tt.msg...)
		if line := MakeLine(room); string(line) != tt.want || &line[0] != &room[:1][0] {
			t.Errorf("MakeLine(%q) = %q, want %q, in the same memory", tt.msg, line, tt.want)
		}
	}
}

// The argument is a message that other goroutines may read at the same time.
func TestAppendLineLeavesItsArgumentAlone(t *testing.T) {
	msg := []byte("{\n}")
	AppendLine(nil, msg)
	AppendEvent(nil, "", msg)
	if string(msg) != "{\n}" {
		t.Errorf("the message is now %q", msg)
	}
}

func TestLineRoundTrip(t *testing.T) {
	pretty, err := json.MarshalIndent(map[string]any{"a": []int{1, 2}, "b": "x\r\ny"}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, bytes.NewReader(AppendLine(AppendLine(nil, pretty), pretty)), 1000)
	if len(lines) != 2 || lines[0] != lines[1] {
		t.Fatalf("two messages became %q", lines)
	}
	var got, want bytes.Buffer
	if err := errors.Join(json.Compact(&got, []byte(lines[0])), json.Compact(&want, pretty)); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("got %s, want %s", &got, &want)
	}
}
