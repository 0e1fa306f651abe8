// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// aCall returns a call with a value in every member.
func aCall(id mcp.CallID) Call {
	return Call{
		ID: id, Received: time.Unix(1_800_000_000, 7), Ended: 12 * time.Millisecond,
		Method: "tools/call", Name: "everything__echo", Backend: "everything", Client: "cursor 2.3",
		Outcome: "failed", Code: 1002, Reason: "the longest of codes", Delivery: mcp.Unknown,
		ClientVersion: mcp.V20250618, BackendVersion: mcp.V20260728, RequestBytes: 40, ResponseBytes: 1 << 33,
		Stages: [mcp.NumStages]time.Duration{0, 1, 2, 3, -1, 5},
		Start:  6 * time.Microsecond, Install: 5 * time.Microsecond, Handshake: time.Hour, Attempts: 2, Asks: 3, Waiting: 8, Delivered: 9,
	}
}

// A record has all that the call had.
func TestRecord(t *testing.T) {
	r := New()
	want := aCall(7)
	want.Delivered = 0
	number := r.Add(&want)
	got, ok := r.Find(7)
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("found: %v (-want +got)\n%s", ok, diff)
	}
	r.Delivered(number, time.Second)
	if got, _ := r.Find(7); got.Delivered != time.Second {
		t.Errorf("delivered after %v", got.Delivered)
	}
	if c, ok := r.Find(8); ok {
		t.Errorf("found %+v", c)
	}
}

// Each method, outcome, delivery and revision is recorded as it is.
func TestRecordWords(t *testing.T) {
	r := New()
	check := func(set func(*Call), get func(*Call) string, want string) {
		t.Helper()
		c := Call{ID: 1}
		set(&c)
		r.Add(&c)
		if got, _ := r.Find(1); get(&got) != want {
			t.Errorf("%q is recorded as %q", want, get(&got))
		}
	}
	for _, m := range append(Methods(), "") {
		check(func(c *Call) { c.Method = m }, func(c *Call) string { return c.Method }, m)
	}
	for _, o := range append(Outcomes(), "") {
		check(func(c *Call) { c.Outcome = o }, func(c *Call) string { return c.Outcome }, o)
		check(func(c *Call) { c.InnerOutcome = o }, func(c *Call) string { return c.InnerOutcome }, o)
	}
	for _, d := range []mcp.Outcome{"", mcp.NotDispatched, mcp.Unknown, mcp.Completed} {
		check(func(c *Call) { c.Delivery = d }, func(c *Call) string { return string(c.Delivery) }, string(d))
		check(func(c *Call) { c.InnerDelivery = d }, func(c *Call) string { return string(c.InnerDelivery) }, string(d))
	}
	for _, v := range slices.Concat(mcp.LegacyVersions(), mcp.ModernVersions()) {
		check(func(c *Call) { c.ClientVersion, c.BackendVersion = v, v }, func(c *Call) string {
			return string(c.ClientVersion[:5] + c.BackendVersion[5:])
		}, string(v))
	}
}

// Texts that others choose are cut, and never in the middle of a character.
func TestRecordCutsTexts(t *testing.T) {
	r := New()
	long := strings.Repeat("é", 500)
	r.Add(&Call{ID: 1, Name: "a" + long, Backend: long, Client: long, Reason: "the longest of codes"})
	got, _ := r.Find(1)
	if got.Backend != long[:MaxBackend] || got.Client != long[:MaxClient] || got.Reason != "the longest of codes" || got.Name != "a"+long[:34] {
		t.Errorf("%+v", got)
	}
	r.Add(&Call{ID: 2, Name: "a" + long})
	if got, _ := r.Find(2); got.Name != "a"+long[:MaxName-2] {
		t.Errorf("%q", got.Name)
	}
}

// The ring keeps the newest calls, in order, and knows how far it reaches back.
func TestRing(t *testing.T) {
	r := New()
	if _, n, ok := r.Since(); ok || n != 0 {
		t.Errorf("%d calls in an empty ring", n)
	}
	began := time.Unix(1_800_000_000, 0)
	var first uint64
	for i := range uint64(Size + 10) {
		n := r.Add(&Call{ID: mcp.CallID(i + 1), Received: began.Add(time.Duration(i) * time.Second)})
		if i == 0 {
			first = n
		}
	}
	var ids []mcp.CallID
	for c := range r.Latest {
		ids = append(ids, c.ID)
	}
	if len(ids) != Size || ids[0] != Size+10 || ids[Size-1] != 11 || !slices.IsSortedFunc(ids, func(a, b mcp.CallID) int { return int(b) - int(a) }) {
		t.Errorf("%d calls, %v to %v", len(ids), ids[0], ids[len(ids)-1])
	}
	if at, n, ok := r.Since(); !ok || n != Size+10 || !at.Equal(began.Add(10*time.Second)) {
		t.Errorf("since %v, %d calls", at, n)
	}
	if _, ok := r.Find(1); ok {
		t.Error("found a call that is gone")
	}
	r.Delivered(first, time.Hour) // another call is in its place
	for c := range r.Latest {
		if c.Delivered != 0 {
			t.Errorf("%v is delivered", c.ID)
		}
	}
}

// Writers and readers do not wait for each other, and a record is never a mix of two.
func TestRingConcurrently(t *testing.T) {
	r := New()
	const writers, each = 6, Size / 2
	var readers, wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for c := range r.Latest {
					if c.Name != fmt.Sprint(c.ID) || c.Code != int64(c.ID) || c.Backend != c.Name {
						t.Errorf("a mixed record: %+v", c)
						return
					}
				}
				r.Since()
			}
		})
	}
	for range writers {
		wg.Go(func() {
			for range each {
				id := r.NewID(time.Now())
				name := fmt.Sprint(id)
				n := r.Add(&Call{ID: id, Name: name, Backend: name, Code: int64(id)})
				r.Delivered(n, 1)
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	kept := 0
	for range r.Latest {
		kept++
	}
	if _, n, _ := r.Since(); kept != Size || n != writers*each {
		t.Errorf("%d calls of %d are kept", kept, n)
	}
}

// Ids are unique, and each is larger than all that were made before, also within one
// millisecond and after the clock was set back.
func TestIDs(t *testing.T) {
	r := New()
	at := time.UnixMilli(1_800_000_000_000)
	if first := r.NewID(at); first < mcp.CallIDAt(at, 0) || first >= mcp.CallIDAt(at, 1<<13) {
		t.Errorf("the first id is %v", first)
	}
	const goroutines, each = 8, 5000
	all := make([][]mcp.CallID, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				all[g] = append(all[g], r.NewID(at.Add(time.Duration(i%3-1)*time.Millisecond)))
			}
		})
	}
	wg.Wait()
	for _, ids := range all {
		if !slices.IsSorted(ids) {
			t.Error("the ids of a goroutine are not in order")
		}
	}
	ids := slices.Concat(all...)
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != goroutines*each {
		t.Errorf("%d different ids, want %d", n, goroutines*each)
	}
}

// The name of a client is decoded once, and few are kept.
func TestClientNames(t *testing.T) {
	var c clients
	decoded := 0
	name := func(info []byte) string { decoded++; return strings.ToUpper(string(info)) }
	for range 3 {
		if got := c.ClientName([]byte("cursor"), name); got != "CURSOR" {
			t.Errorf("got %q", got)
		}
	}
	if decoded != 1 {
		t.Errorf("decoded %d times", decoded)
	}
	for i := range 10 * maxClients {
		c.ClientName(fmt.Append(nil, i), name)
	}
	c.ClientName(make([]byte, maxInfo+1), name)
	if len(c.names) > maxClients {
		t.Errorf("%d names are kept", len(c.names))
	}
	if c.ClientName(nil, name) != "" {
		t.Error("no client has a name")
	}
}

// The whole ring is one MiB.
func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(record{}); size > 272 {
		t.Errorf("a record has %d bytes", size)
	}
}

// observe does what a call costs: its id, its looks at the clock, and its record.
func observe(r *Recorder, l *mcp.Timeline, info []byte) {
	*l = mcp.Timeline{}
	l.Begin(time.Now())
	l.Take(r.NewID(l.Received()))
	l.Mark(mcp.StageAdmitted)
	l.Mark(mcp.StageResolved)
	l.Attempt()
	for s := mcp.StageLeased; s < mcp.NumStages; s++ {
		l.Mark(s)
	}
	c := Call{
		ID: l.ID(), Received: l.Received(), Ended: time.Since(l.Received()), Method: "tools/call", Name: "everything__echo",
		Backend: "everything", Client: r.ClientName(info, nil), Outcome: "ok", ClientVersion: mcp.V20250618, BackendVersion: mcp.V20251125,
	}
	c.SetStages(l)
	l.OnDelivered(r.Add(&c), r.OnDelivered)
	l.Delivered()
}

// A call allocates nothing for its id and its record.
func TestAllocations(t *testing.T) {
	r, l, info := New(), new(mcp.Timeline), []byte(`{"name":"cursor","version":"2.3"}`)
	r.ClientName(info, func([]byte) string { return "cursor 2.3" })
	if n := testing.AllocsPerRun(1000, func() { observe(r, l, info) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCall is what the id, the looks at the clock and the record cost a call. The
// mark is 0.5 µs.
func BenchmarkCall(b *testing.B) {
	r, l, info := New(), new(mcp.Timeline), []byte(`{"name":"cursor","version":"2.3"}`)
	r.ClientName(info, func([]byte) string { return "cursor 2.3" })
	b.ReportAllocs()
	for b.Loop() {
		observe(r, l, info)
	}
}
