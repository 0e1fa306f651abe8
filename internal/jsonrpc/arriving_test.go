// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// windowSize is how much of a message an Arrival holds.
const windowSize = 63 << 10

// arrivingOf returns a result with front as its head; rest follows a window later. Its
// length is announced.
func arrivingOf(t *testing.T, front, rest string, end error) *Arriving {
	t.Helper()
	return arrivingIn(t, front, rest, end, true)
}

func arrivingIn(t *testing.T, front, rest string, end error, announced bool) *Arriving {
	t.Helper()
	text := `{"jsonrpc":"2.0","id":1,"result":{` + front + `"filler":"` + strings.Repeat("x", 2*windowSize) + `"` + rest
	size := int64(-1)
	if announced {
		size = int64(len(text))
	}
	a := NewArrival(io.MultiReader(strings.NewReader(text), failing{end}), size, mcp.Limits{}, 1<<30)
	if whole, err := a.Begin(); whole != nil || err != nil || a.Head() == nil {
		t.Fatalf("%.60s shows no result (%v)", text, err)
	}
	return NewArriving(&a, mcp.V20251125, func() {})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Changes apply wherever the member is, and all other text is unmodified.
func TestArrivingChanges(t *testing.T) {
	filler := `"filler":"` + strings.Repeat("x", 2*windowSize) + `"`
	put := func(a *Arriving) { a.PutText(mcp.FieldResultType, "complete"); a.Prepend(mcp.FieldTTL, []byte("0")) }
	drop := func(a *Arriving) { a.Omit(mcp.FieldTTL, mcp.FieldCacheScope, mcp.MetaRelatedTask) }
	wrap := func(a *Arriving) { a.Wrap(mcp.FieldStructuredContent) }
	const two = `"resultType":"complete","ttlMs":0,`
	tests := []struct {
		name        string
		front, rest string
		change      func(*Arriving)
		want        string
	}{
		{"nothing", `"a":1,`, `,"b":2}}`, func(*Arriving) {}, `{"a":1,` + filler + `,"b":2}`},
		{"put", ``, `,"b":2}}`, put, `{` + two + filler + `,"b":2}`},
		{"put before what stands behind", ``, `,"ttlMs":5,"resultType":"complete","b":2}}`, put, `{` + two + filler + `,"b":2}`},
		{"put instead of what stands in front", `"ttlMs":5,`, `}}`, put, `{` + two + filler + `}`},
		{"drop in front", `"ttlMs":5,"_meta":{"io.modelcontextprotocol/related-task":{},"k":1},`, `}}`, drop, `{"_meta":{"k":1},` + filler + `}`},
		{"drop behind", ``, `,"cacheScope":"private","_meta":{"io.modelcontextprotocol/related-task":{}}}}`, drop, `{` + filler + `,"_meta":{}}`},
		{"wrap in front", `"structuredContent": [1],`, `}}`, wrap, `{"structuredContent": {"result":[1]},` + filler + `}`},
		{"wrap behind", ``, `,"structuredContent":"s" , "b":2}}`, wrap, `{` + filler + `,"structuredContent":{"result":"s"} , "b":2}`},
		{"wrap no object", ``, `,"structuredContent":{"s":1}}}`, wrap, `{` + filler + `,"structuredContent":{"s":1}}`},
		{"wrap nothing below", ``, `,"b":{"structuredContent":1}}}`, wrap, `{` + filler + `,"b":{"structuredContent":1}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := arrivingOf(t, tt.front, tt.rest, io.EOF)
			tt.change(a)
			most := a.Longest()
			var out bytes.Buffer
			if err := a.Flow(&out); err != nil {
				t.Fatal(err)
			}
			if int64(out.Len()) > most {
				t.Errorf("%d bytes were written, of %d at most", out.Len(), most)
			}
			if got := out.String(); got != tt.want {
				t.Errorf("got %.90s … %s\nwant %.90s … %s", got, got[max(0, len(got)-90):], tt.want, tt.want[max(0, len(tt.want)-90):])
			}
			if res := a.Result(); res == nil || !res.Delivered {
				t.Error("the result is not known to be delivered")
			}
		})
	}
}

// Longest is the announced length less the envelope, plus added members; omitted
// members and those after the result are not known in advance.
func TestArrivingLongest(t *testing.T) {
	const filler = int64(len(`"filler":""`) + 2*windowSize)
	tests := []struct {
		name   string
		rest   string
		change func(*Arriving)
		want   int64
	}{
		{"nothing", `}}`, func(*Arriving) {}, filler + int64(len(`{}`))},
		{"put", `}}`, func(a *Arriving) { a.Prepend(mcp.FieldTTL, []byte("0")) }, filler + int64(len(`{"ttlMs":0,}`))},
		{"wrap", `,"structuredContent":1}}`, func(a *Arriving) { a.Wrap(mcp.FieldStructuredContent) }, filler + int64(len(`{,"structuredContent":{"result":1}}`))},
		{"drop", `,"ttlMs":5}}`, func(a *Arriving) { a.Omit(mcp.FieldTTL) }, filler + int64(len(`{,"ttlMs":5}`))},
		{"more behind", `},"id":1 }`, func(*Arriving) {}, filler + int64(len(`{},"id":1 `))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := arrivingOf(t, ``, tt.rest, io.EOF)
			tt.change(a)
			if got := a.Longest(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	a := arrivingIn(t, ``, `}}`, io.EOF, false)
	if got := a.Longest(); got >= 0 {
		t.Errorf("got %d of what was not announced, want none", got)
	}
}

// Has looks at the members of the result only.
func TestArrivingHas(t *testing.T) {
	tests := []struct {
		front string
		want  bool
	}{
		{`"content":[],`, true},
		{`"content":[{"text":"` + strings.Repeat("y", 2*windowSize) + `"}],`, true},
		{`"a":{"content":1},"b":"\"content\":",`, false},
		{`"a":{"content":"` + strings.Repeat("y", 2*windowSize) + `"},`, false},
		{``, false},
	}
	for _, tt := range tests {
		if got := arrivingOf(t, tt.front, `}}`, io.EOF).Has(mcp.FieldContent); got != tt.want {
			t.Errorf("%.40s: Begun = %v, want %v", tt.front, got, tt.want)
		}
	}
}

// The error distinguishes a failure of the server from one of the client.
func TestArrivingErrors(t *testing.T) {
	died, full := errors.New("died"), errors.New("full")
	a := arrivingOf(t, "", "", died)
	if err := a.Flow(io.Discard); !errors.Is(err, died) || errors.Is(err, ErrNotTaken) || a.Result() != nil {
		t.Errorf("a reader that fails: %v, result %v", err, a.Result())
	}
	a = arrivingOf(t, "", "}}", io.EOF)
	if err := a.Flow(refusing{full}); !errors.Is(err, full) || !errors.Is(err, ErrNotTaken) || a.Result() != nil {
		t.Errorf("a writer that fails: %v, result %v", err, a.Result())
	}
	a = arrivingOf(t, "", "", context.Canceled)
	a.Stop()
	if err := a.Flow(io.Discard); !errors.Is(err, ErrNotTaken) || !errors.Is(err, context.Canceled) {
		t.Errorf("one that was stopped: %v", err)
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

type pauserFunc func(on bool)

func (f pauserFunc) Pause(on bool) { f(on) }

// What is registered is paused during each write.
func TestArrivingPauseWriting(t *testing.T) {
	a := arrivingOf(t, "", "}}", io.EOF)
	taking, pieces := 0, 0
	for range 2 {
		a.PauseWriting(pauserFunc(func(on bool) {
			if on {
				taking++
				return
			}
			taking--
			pieces++
		}))
	}
	w := writerFunc(func(p []byte) (int, error) {
		if taking != 2 {
			t.Errorf("%d were told that a piece is taken, want 2", taking)
		}
		return len(p), nil
	})
	if err := a.Flow(w); err != nil || taking != 0 || pieces < 4 {
		t.Errorf("Flow = %v; %d pieces are taken still, and %d were", err, taking, pieces)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
