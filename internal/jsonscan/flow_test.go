// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// flowed streams a text and returns the output.
func flowed(t testing.TB, text string, lim Limits, p Passage, cuts []byte) (string, string, error) {
	t.Helper()
	a := NewArrival(&jsontest.CutReader{Text: text, Cuts: cuts, End: io.EOF, Together: len(cuts)%2 == 0}, -1, lim, 1<<30)
	whole, err := a.Begin()
	if whole != nil || err != nil {
		t.Fatalf("%.60s: the whole was had: %v", strings.TrimSpace(text), err)
	}
	var out bytes.Buffer
	isError, err := a.Flow(&out, p)
	return out.String(), isError, err
}

// Checked text is written before Flow waits for more.
func TestFlowWritesBeforeItWaits(t *testing.T) {
	pieces := []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", windowSize), "first ", `sec\`, `nd`, "\xe6\x97", "\xa5", `","n":12`, `3,"o":[1`, `,2]`, `},"x":0}`,
	}
	want := []string{"first ", "sec", `\nd`, "", "\xe6\x97\xa5", `","n":`, `123,"o":[`, `1,2]`, `},"x":0`}
	r := &relay{pieces: pieces}
	a := NewArrival(r, -1, Limits{}, 1<<30)
	if whole, err := a.Begin(); whole != nil || err != nil {
		t.Fatal(err)
	}
	if _, err := a.Flow(r, Passage{}); err != nil {
		t.Fatal(err)
	}
	if got := r.between[len(r.between)-len(want):]; !slices.Equal(got, want) {
		t.Errorf("written before each further piece: %q, want %q", got, want)
	}
}

// relay is a reader of pieces and a writer that records the output between two reads.
type relay struct {
	pieces  []string
	between []string
	written strings.Builder
}

func (r *relay) Read(p []byte) (int, error) {
	r.between = append(r.between, r.written.String())
	r.written.Reset()
	if len(r.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.pieces[0])
	if r.pieces[0] = r.pieces[0][n:]; r.pieces[0] == "" {
		r.pieces = r.pieces[1:]
	}
	return n, nil
}

func (r *relay) Write(p []byte) (int, error) { return r.written.Write(p) }

// Nothing is written of invalid text, nor after it.
func TestFlowWritesCheckedTextOnly(t *testing.T) {
	good := strings.Repeat("x", 3*windowSize)
	for _, bad := range []string{"\x00", `\q`, "\xff", "\n", `"]`, `"},`, `","a":1`} {
		out, _, err := flowed(t, `{"jsonrpc":"2.0","id":1,"result":{"a":"`+good+bad+`evil"}}`, Limits{}, Passage{}, []byte{200})
		if err == nil || strings.Contains(out, "evil") || bad[0] != '"' && !strings.HasPrefix(`{"a":"`+good, out) {
			t.Errorf("%q: %d bytes, the last of them %q, %v", bad, len(out), out[max(0, len(out)-20):], err)
		}
	}
}

var errWriter = errors.New("the client is gone")

// brokenAfter is a writer that fails after left writes.
type brokenAfter struct{ left int }

func (w *brokenAfter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errWriter
	}
	return len(p), nil
}

// Nothing more is read after the writer has failed.
func TestFlowWriterError(t *testing.T) {
	r := &relay{pieces: slices.Repeat([]string{strings.Repeat(" ", windowSize)}, 10)}
	r.pieces[0] = `{"jsonrpc":"2.0","id":1,"result":{"a":"` + r.pieces[0]
	a := NewArrival(r, -1, Limits{}, 1<<30)
	if _, err := a.Begin(); err != nil {
		t.Fatal(err)
	}
	_, err := a.Flow(&brokenAfter{left: 2}, Passage{})
	if !errors.Is(err, errWriter) || len(r.pieces) < 5 {
		t.Errorf("%v, with %d pieces left", err, len(r.pieces))
	}
}

// A Passage applies to the whole result, not only to its head.
func TestPassage(t *testing.T) {
	big := `"a":"` + strings.Repeat("x", windowSize) + `"`
	for _, tt := range []struct {
		name, members, want string // want is the error, or empty
		p                   Passage
	}{
		{"its id", big, "", Passage{ID: []byte("1")}},
		{"another id", big, "the id is not the request's", Passage{ID: []byte(`"1"`)}},
		{"complete in front", `"resultType":"complete",` + big, "", Passage{Complete: true}},
		{"complete behind", big + `,"resultType":"c\u006fmplete"`, "", Passage{Complete: true}},
		{"incomplete behind", big + `,"resultType":"input_required"`, `member "resultType" is not "complete"`, Passage{Complete: true}},
		{"a number", big + `,"resultType":1`, `member "resultType" is not "complete"`, Passage{Complete: true}},
		{"an object", big + `,"resultType":{}`, `member "resultType" is an object`, Passage{Complete: true}},
		{"whatever", big + `,"resultType":{}`, "", Passage{}},
	} {
		_, _, err := flowed(t, `{"jsonrpc":"2.0","id":1,"result":{`+tt.members+`}}`, Limits{}, tt.p, nil)
		pe, _ := errors.AsType[*Error](err)
		if (err != nil) != (tt.want != "") || err != nil && pe.Reason != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// Tokens that cannot be split must fit into the window; text that arrives byte by byte
// is not scanned again for each byte.
func TestFlowOfLongTokens(t *testing.T) {
	const half, twice = windowSize / 2, 2 * windowSize
	for _, tt := range []struct {
		name, members string
		ok            bool
	}{
		{"a number", `"a":` + strings.Repeat("1", half), true},
		{"a number beyond", `"a":` + strings.Repeat("1", twice), false},
		{"a name", `"` + strings.Repeat("n", half) + `":1`, true},
		{"a name below", `"a":{"` + strings.Repeat("n", half) + `":1}`, true},
		{"a name beyond", `"` + strings.Repeat("n", twice) + `":1`, false},
		{"space before a name", `"a":1,` + strings.Repeat(" ", half) + `"b":1`, true},
		{"space before a name beyond", `"a":1,` + strings.Repeat(" ", twice) + `"b":1`, false},
		{"other space", `"a":[` + strings.Repeat(" ", twice) + `1` + strings.Repeat(" ", twice) + `]` + strings.Repeat(" ", twice), true},
		{"a string", `"a":"` + strings.Repeat("日", twice) + `"`, true},
		{"escapes", `"a":"` + strings.Repeat(`\u00e9\n`, twice) + `"`, true},
		{"names", `"a":0` + members(20_000), true},
	} {
		in := long(`{"jsonrpc":"2.0","id":1,"result":{`+tt.members+`}}`, 100)
		for _, cuts := range [][]byte{nil, {2}} {
			out, _, err := flowed(t, in, Limits{}, Passage{}, cuts)
			if (err == nil) != tt.ok || tt.ok && out != "{"+tt.members+"}" {
				t.Errorf("%s, cut %v: %d bytes, %v", tt.name, cuts, len(out), err)
			}
		}
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"member %d":%d`, i, i)
	}
	return b.String()
}

// A reused window shows nothing of the previous message.
func TestFlowsShareNoData(t *testing.T) {
	for i := range 20 {
		text := strings.Repeat(string(rune('a'+i)), windowSize+i)
		out, _, err := flowed(t, `{"jsonrpc":"2.0","id":1,"result":{"a":"`+text+`"}}`, Limits{}, Passage{}, nil)
		if err != nil || out != `{"a":"`+text+`"}` {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

func TestFlowAllocations(t *testing.T) {
	in := jsontest.TextResult(1 << 20)
	got := testing.AllocsPerRun(20, func() {
		a := NewArrival(strings.NewReader(in), -1, Limits{}, 1<<30)
		if whole, err := a.Begin(); whole != nil || err != nil {
			t.Fatal(err)
		}
		if _, err := a.Flow(io.Discard, Passage{}); err != nil {
			t.Fatal(err)
		}
	})
	if got > 16 { // one or two for each cut within a token
		t.Errorf("%v allocations", got)
	}
}

// BenchmarkFlow reads, checks and streams a response in the form of most large ones.
func BenchmarkFlow(b *testing.B) {
	for _, bm := range []struct{ name, message string }{
		{"text 1 MiB", jsontest.TextResult(1 << 20)},
		{"prose 1 MiB", jsontest.ProseResult(1 << 20)},
		{"dense 1 MiB", jsontest.DenseResult(1 << 20)},
		{"wide 1 MiB", jsontest.WideResult(1 << 20)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.message)))
			b.ReportAllocs()
			for b.Loop() {
				a := NewArrival(strings.NewReader(bm.message), -1, Limits{}, math.MaxInt)
				if whole, err := a.Begin(); whole != nil || err != nil {
					b.Fatal(err)
				}
				if _, err := a.Flow(io.Discard, Passage{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
