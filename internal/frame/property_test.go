// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// randomJSON is a JSON text that is difficult to frame: it has line breaks between
// tokens, and strings that look like fields.
func randomJSON(r *rand.Rand) string {
	space := func() string { return []string{"", "", " ", "\n", "\r\n", "\r", "\t\n\n"}[r.IntN(7)] }
	text := []string{`"a"`, `"data: x"`, `"\n\n"`, `": c"`, `"\u0000"`, `"日本🎉"`, `"` + strings.Repeat("x", r.IntN(9000)) + `"`, `1e400`, `[]`}
	var b strings.Builder
	b.WriteString("{" + space())
	for i := range r.IntN(4) {
		if i > 0 {
			b.WriteString("," + space())
		}
		fmt.Fprintf(&b, `"k%d"%s:%s%s%s`, i, space(), space(), text[r.IntN(len(text))], space())
	}
	return b.String() + "}"
}

// flat returns a text as it arrives after it was written over several lines.
func flat(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }

// cutAnywhere returns a stream in pieces of random sizes.
func cutAnywhere(r *rand.Rand, stream string) *cutReader {
	var cuts []int
	for range r.IntN(12) {
		cuts = append(cuts, r.IntN(len(stream)+1))
	}
	slices.Sort(cuts)
	return newCut(stream, cuts...)
}

// Everything written to a stream, in any order and however it is cut, is read as it was
// written: writer and reader agree without a third implementation.
func TestEventsWrittenAreRead(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 26))
	for range 300 {
		var stream []byte
		var want []Event
		lastID := ""
		for i := range r.IntN(8) {
			id := ""
			if r.IntN(2) == 0 {
				id = []string{"s/", " ", ":", "日", "data: "}[r.IntN(5)] + fmt.Sprint(i)
			}
			switch r.IntN(4) {
			case 0:
				stream = AppendComment(stream, randomJSON(r))
				continue
			case 1:
				after := time.Duration(r.IntN(5000)) * time.Millisecond
				stream = AppendRetry(stream, after)
				want = append(want, Event{Name: "message", Retry: after})
				continue
			case 2:
				id = fmt.Sprint("p/", i)
				stream = AppendPriming(stream, id)
				want = append(want, Event{Name: "message", ID: id, HasID: true, Data: []byte{}, Retry: noRetry})
			default:
				data := randomJSON(r)
				stream = AppendEvent(stream, id, []byte(data))
				want = append(want, Event{Name: "message", ID: id, HasID: id != "", Data: []byte(flat(data)), Retry: noRetry})
			}
			if id != "" {
				lastID = id
			}
		}
		got, gotID := readEvents(t, cutAnywhere(r, string(stream)), 1<<20)
		if !reflect.DeepEqual(got, want) || gotID != lastID { // cmp, for showing differences, takes seconds
			t.Fatalf("last id %q, want %q; (-got +want):\n%s", gotID, lastID, cmp.Diff(got, want))
		}
	}
}

func TestLinesWrittenAreRead(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 27))
	for range 300 {
		var stream []byte
		var want []string
		for range r.IntN(8) {
			msg := randomJSON(r)
			stream = AppendLine(stream, []byte(msg))
			want = append(want, flat(msg))
			if r.IntN(3) == 0 {
				stream = append(stream, []string{"\n", "\r\n", "\n\n"}[r.IntN(3)]...)
			}
		}
		if diff := cmp.Diff(readLines(t, cutAnywhere(r, string(stream)), 1<<20), want); diff != "" {
			t.Fatalf("(-got +want):\n%s", diff)
		}
	}
}

// A stream that ends anywhere gives every complete message. Of the last one it gives
// nothing (SSE), or the part that was read, which the caller must check (a line needs
// no end at the end of a stream).
func TestStreamsThatEndAnywhere(t *testing.T) {
	whole := AppendEvent(AppendEvent(nil, "1", []byte(`{"a":1}`)), "2", []byte(`{"b":2}`))
	first := len(AppendEvent(nil, "1", []byte(`{"a":1}`)))
	for n := range whole {
		events, lastID := readEvents(t, newCut(string(whole[:n])), 100)
		wantEvents, wantID := 0, ""
		if n >= first {
			wantEvents, wantID = 1, "1"
		}
		if len(events) != wantEvents || lastID != wantID {
			t.Errorf("cut at %d: %d events, last id %q; want %d, %q", n, len(events), lastID, wantEvents, wantID)
		}
	}
	lines := AppendLine(AppendLine(nil, []byte(`{"a":1}`)), []byte(`{"b":2}`))
	for n := range lines {
		got := readLines(t, newCut(string(lines[:n])), 100)
		want := strings.FieldsFunc(string(lines[:n]), func(c rune) bool { return c == '\n' })
		if !slices.Equal(got, want) {
			t.Errorf("cut at %d: %q, want %q", n, got, want)
		}
	}
}
