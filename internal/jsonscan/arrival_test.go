// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// long returns the text after enough white space that only its first inWindow bytes are
// in the window.
func long(text string, inWindow int) string {
	return strings.Repeat(" ", max(0, windowSize-inWindow)) + text
}

func arriving(text string, lim Limits, cuts ...byte) *Arrival {
	a := NewArrival(&jsontest.CutReader{Text: text, Cuts: cuts, End: io.EOF}, -1, lim, 1<<30)
	return &a
}

// Begin returns a short message whole and rejects one beyond the limit.
func TestArrivalShortMessage(t *testing.T) {
	for _, in := range []string{jsontest.SmallCall, "", jsontest.TextResult(10 << 10), `{"jsonrpc`, strings.Repeat(" ", windowSize-1)} {
		whole, err := arriving(in, Limits{}).Begin()
		if err != nil || whole == nil || string(whole) != in {
			t.Errorf("%.40s: %.40s, %v", in, whole, err)
		}
	}
	a := NewArrival(strings.NewReader(jsontest.SmallCall), -1, Limits{}, 50)
	_, err := a.Begin()
	if pe, ok := errors.AsType[*Error](err); !ok || pe.Exceeded != LimitBytes || pe.Offset != 50 {
		t.Errorf("a message that is too long: %v", err)
	}
}

// Gather uses the announced length but does not rely on it.
func TestArrivalGather(t *testing.T) {
	for _, length := range []int{windowSize, windowSize + 1, 100_000, 3 << 20} {
		in := jsontest.TextResult(length)
		for _, size := range []int64{-1, 0, 10, int64(len(in)) - 1, int64(len(in)), int64(len(in)) + 1, 1 << 40} {
			a := NewArrival(&jsontest.CutReader{Text: in, Cuts: []byte{255, 3}, End: io.EOF, Together: size%2 == 0}, size, Limits{}, 4<<20)
			whole, err := a.Begin()
			if err == nil && whole == nil {
				whole, err = a.Gather()
			}
			if err != nil || string(whole) != in {
				t.Errorf("%d bytes, %d announced: %d, %v", len(in), size, len(whole), err)
			}
		}
	}
}

// Gather allocates one buffer for an announced length, and a few otherwise.
func TestGatherAllocations(t *testing.T) {
	// A collection would free the pooled windows.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	in := jsontest.TextResult(1 << 20)
	for size, most := range map[int64]float64{int64(len(in)): 5, -1: 9} {
		got := testing.AllocsPerRun(10, func() {
			a := NewArrival(strings.NewReader(in), size, Limits{}, 1<<30)
			if whole, err := a.Begin(); whole != nil || err != nil {
				t.Fatal(err)
			}
			if whole, err := a.Gather(); err != nil || len(whole) != len(in) {
				t.Fatal(err)
			}
		})
		if got > most {
			t.Errorf("%d announced: %v allocations, want at most %v", size, got, most)
		}
	}
}

// A sender that announces much and sends little causes no large allocation.
func TestGatherDoesNotTrustTheAnnouncedLength(t *testing.T) {
	a := NewArrival(strings.NewReader(jsontest.TextResult(windowSize+100)), 1<<30, Limits{}, 1<<30)
	if _, err := a.Begin(); err != nil {
		t.Fatal(err)
	}
	whole, err := a.Gather()
	if err != nil || cap(whole) > 4<<20 {
		t.Errorf("%d bytes of room for %d bytes that came, %v", cap(whole), len(whole), err)
	}
}

// maxBytes applies exactly to gathered and streamed messages.
func TestArrivalMaxBytes(t *testing.T) {
	in := jsontest.TextResult(100_000)
	for _, most := range []int{windowSize - 1, windowSize, windowSize + 1, len(in) - 1, len(in)} {
		for _, flows := range []bool{false, true} {
			a := NewArrival(strings.NewReader(in), -1, Limits{}, most)
			_, err := a.Begin()
			switch {
			case err != nil:
			case flows:
				_, err = a.Flow(io.Discard, Passage{})
			default:
				_, err = a.Gather()
			}
			pe, ok := errors.AsType[*Error](err)
			if most >= len(in) && err != nil || most < len(in) && (!ok || pe.Exceeded != LimitBytes) {
				t.Errorf("%d bytes of %d, flowing %v: %v", len(in), most, flows, err)
			}
		}
	}
}

// A broken connection is not the end of a message, at any position.
func TestArrivalReadError(t *testing.T) {
	in := jsontest.TextResult(100_000)
	for _, at := range []int{0, 10, windowSize - 1, windowSize, windowSize + 1, len(in) - 1, len(in)} {
		for _, flows := range []bool{false, true} {
			a := NewArrival(&jsontest.CutReader{Text: in[:at], End: io.ErrUnexpectedEOF, Together: true}, -1, Limits{}, 1<<30)
			whole, err := a.Begin()
			switch {
			case err != nil:
			case flows:
				_, err = a.Flow(io.Discard, Passage{})
			default:
				whole, err = a.Gather()
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) || whole != nil {
				t.Errorf("broken at %d, flowing %v: %d bytes, %v", at, flows, len(whole), err)
			}
		}
	}
}

// Result has the members that are complete in the head, and none that may still change.
func TestArrivalHead(t *testing.T) {
	const head = `{"jsonrpc":"2.0","id":42,"result":{"resultType":"complete","ttlMs":12,"_meta":{"progressToken":7,"`
	has := func(o *Object, fields ...Field) (got []bool) {
		for _, f := range fields {
			got = append(got, o.Has(f))
		}
		return got
	}
	for at := range len(head) {
		in := long(head[:at], at) + head[at:] + strings.Repeat("x", windowSize) + `":1}}}`
		a := arriving(in, Limits{})
		if whole, err := a.Begin(); whole != nil || err != nil {
			t.Fatal(err)
		}
		ends := func(upTo string) bool { return at >= strings.Index(head, upTo)+len(upTo) }
		wantID := ""
		if ends(`42,`) {
			wantID = "42"
		}
		if got := string(a.ID()); got != wantID {
			t.Errorf("%s: id %q, want %q", head[:at], got, wantID)
		}
		if got, want := a.Result() != nil, ends(`"result":{`); got != want {
			t.Fatalf("%s: is a result: %v, want %v", head[:at], got, want)
		}
		if a.Result() == nil {
			continue
		}
		got := has(a.Result(), FieldResultType, FieldTTL, MetaProgressToken, FieldMeta)
		want := []bool{ends(`"complete",`), ends(`12,`), ends(`7,`), false}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: members shown: %v, want %v", head[:at], got, want)
				break
			}
		}
	}
}

// Result is nil if the message may not be a result: it is gathered and checked as a
// whole.
func TestArrivalHeadWithoutResult(t *testing.T) {
	big := strings.Repeat("x", windowSize)
	for _, in := range []string{
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"` + big + `"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"` + big + `"}}`,
		`{"jsonrpc":"2.0","method":"m","id":1,"result":{"a":"` + big + `"}}`,
		`{"jsonrpc":"2.0","id":1,"result":["` + big + `"]}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2,"b":"` + big + `"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":tru,"b":"` + big + `"}}`,
		`{"Result":1,"result":{"b":"` + big + `"}}`,
		`[{"jsonrpc":"2.0","id":1,"result":{"a":"` + big + `"}}]`,
		`"` + big + `"`, "\ufeff" + jsontest.TextResult(windowSize), strings.Repeat(" ", 2*windowSize),
	} {
		a := arriving(in, Limits{})
		if whole, err := a.Begin(); whole != nil || err != nil {
			t.Fatal(err)
		}
		if a.Result() != nil {
			t.Errorf("%.60s: taken for a result", in)
		}
		if whole, err := a.Gather(); err != nil || string(whole) != in {
			t.Errorf("%.60s: %v", in, err)
		}
	}
}

// endless returns the same byte left times.
type endless struct{ left int }

func (r *endless) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	r.left -= n
	return n, nil
}

// Flow holds no more than a window, however long the result.
func TestFlowHoldsOneWindow(t *testing.T) {
	const size = 100 << 20
	r := io.MultiReader(
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`),
		&endless{left: size}, strings.NewReader(`"}]}}`))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := NewArrival(r, -1, Limits{}, 2*size)
	if whole, err := a.Begin(); whole != nil || err != nil {
		t.Fatal(err)
	}
	var written counter
	if _, err := a.Flow(&written, Passage{ID: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if written.bytes < size || written.longest > windowSize {
		t.Errorf("%d bytes in pieces of at most %d", written.bytes, written.longest)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4*windowSize {
		t.Errorf("%d bytes of memory for %d bytes that went by", used, size)
	}
}

type counter struct{ bytes, longest int }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += len(p)
	c.longest = max(c.longest, len(p))
	return len(p), nil
}
