// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newAudit returns an Audit, what is logged of it, and how many entries have not
// reached their file.
func newAudit() (a *Audit, log *book, failed *atomic.Int64) {
	log, failed = new(book), new(atomic.Int64)
	return NewAudit(slog.New(log.handler()), func() { failed.Add(1) }), log, failed
}

// openIn opens a file of the test's own folder.
func openIn(t *testing.T, name string) (path string, file *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	file, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, file
}

// entries reads a record as its readers do: line by line.
func entries(t *testing.T, text []byte) []Entry {
	t.Helper()
	var all []Entry
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An entry is one line with each member, whatever its texts are.
func TestAuditWritesLines(t *testing.T) {
	a, log, failed := newAudit()
	path, file := openIn(t, "audit.jsonl")
	a.Use(t.Context(), file)
	at := time.Date(2026, 7, 28, 12, 0, 0, 5, time.UTC)
	want := []Entry{
		{Time: at, Event: "foreign_session", Principal: "bob", Remote: "127.0.0.1:5", Session: "s7", Detail: ""},
		{Time: at, Event: "foreign_host", Detail: "two\nlines, \"quotes\" and \x00 \u2028"},
		{Time: at, Event: "hidden_item", Detail: "tool \u202e"},
	}
	for _, e := range want {
		a.Record(t.Context(), e)
	}
	a.Close(t.Context())
	text := read(t, path)
	if diff := cmp.Diff(entries(t, text), want); diff != "" {
		t.Errorf("entries (-got +want):\n%s", diff)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	const line = `{"time":"2026-07-28T12:00:00.000000005Z","event":"foreign_session","principal":"bob","remote":"127.0.0.1:5","session":"s7","detail":""}`
	if first != line {
		t.Errorf("the first line is %s\nwant %s", first, line)
	}
	if failed.Load() != 0 || log.count("audit") != 0 {
		t.Errorf("%d failed, the log has %q", failed.Load(), log.lines())
	}
}

func TestAuditStampsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAudit()
		var out sink
		a.use(t.Context(), &out)
		began := time.Now()
		a.Record(t.Context(), Entry{Event: "x"})
		<-time.After(time.Hour)
		a.Close(t.Context())
		if got := entries(t, out.bytes()); len(got) != 1 || !got[0].Time.Equal(began) {
			t.Errorf("entries %v, want one of %v", got, began)
		}
	})
}

// A detail that is no UTF-8 costs no entry.
func TestAuditTakesAnyBytes(t *testing.T) {
	a, log, failed := newAudit()
	path, file := openIn(t, "audit.jsonl")
	a.Use(t.Context(), file)
	a.Record(t.Context(), Entry{Event: "x", Detail: "\xff\xfe"})
	a.Close(t.Context())
	if got := entries(t, read(t, path)); len(got) != 1 || failed.Load() != 0 {
		t.Errorf("%d entries, %d failed: %q", len(got), failed.Load(), log.lines())
	}
}

// Without a file the log has the entries.
func TestAuditInTheLog(t *testing.T) {
	a, log, failed := newAudit()
	a.Record(t.Context(), Entry{Event: "foreign_host", Principal: "p", Remote: "r", Session: "s", Detail: "evil.example"})
	a.Close(t.Context())
	a.Record(t.Context(), Entry{Event: "after the end"})
	a.out.wait(t.Context())
	want := []string{
		`level=WARN msg=audit event=foreign_host principal=p remote=r session=s detail=evil.example`,
		`level=WARN msg=audit event="after the end" principal="" remote="" session="" detail=""`,
	}
	if diff := cmp.Diff(log.lines(), want); diff != "" || failed.Load() != 0 {
		t.Errorf("log (-got +want):\n%s", diff)
	}
}

// The file is its owner's alone, is made if it is not there, and what is in it
// stays.
func TestAuditFile(t *testing.T) {
	path, file := openIn(t, "audit.jsonl")
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode(); got != 0o600 {
		t.Errorf("mode %v, want -rw-------", got)
	}
	for i, f := range []func() (*os.File, error){
		func() (*os.File, error) { return file, nil },
		func() (*os.File, error) { return OpenAudit(path) },
	} {
		f, err := f()
		if err != nil {
			t.Fatal(err)
		}
		a, _, _ := newAudit()
		a.Use(t.Context(), f)
		a.Record(t.Context(), Entry{Event: fmt.Sprint(i)})
		a.Close(t.Context())
		if _, err := f.WriteString("x"); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the file is not closed: %v", err)
		}
	}
	if got := entries(t, read(t, path)); len(got) != 2 || got[0].Event != "0" || got[1].Event != "1" {
		t.Errorf("entries %v", got)
	}
}

// A reload gives another file: each has what was recorded in its time.
func TestAuditRotates(t *testing.T) {
	a, _, failed := newAudit()
	path, file := openIn(t, "audit.jsonl")
	a.Use(t.Context(), file)
	a.Record(t.Context(), Entry{Event: "before"})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	a.Record(t.Context(), Entry{Event: "moved away"})
	again, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	a.Use(t.Context(), again)
	a.Record(t.Context(), Entry{Event: "after"})
	a.Close(t.Context())
	events := func(path string) (names []string) {
		for _, e := range entries(t, read(t, path)) {
			names = append(names, e.Event)
		}
		return names
	}
	got := [][]string{events(path + ".1"), events(path)}
	if diff := cmp.Diff(got, [][]string{{"before", "moved away"}, {"after"}}); diff != "" || failed.Load() != 0 {
		t.Errorf("%d failed; events (-got +want):\n%s", failed.Load(), diff)
	}
}

// sink is a file that fails on demand: like a disk with no more than room bytes.
type sink struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	limited bool
	room    int
	closing error
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.limited {
		return s.buf.Write(p)
	}
	n := min(len(p), s.room)
	s.room -= n
	s.buf.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (s *sink) Close() error { return s.closing }

func (s *sink) limit(room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limited, s.room = room >= 0, room
}

func (s *sink) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.buf.Bytes())
}

// On a full disk no entry is lost: the log has it, with the reason, and it is
// counted. When there is room again, the next entry begins on its own line.
func TestAuditOnAFullDisk(t *testing.T) {
	for _, room := range []int{0, 1, 40} {
		a, log, failed := newAudit()
		var disk sink
		a.use(t.Context(), &disk)
		record := func(event string) {
			a.Record(t.Context(), Entry{Event: event})
			a.out.wait(t.Context())
		}
		record("one")
		disk.limit(room)
		record("two")
		record("three")
		disk.limit(-1)
		record("four")
		record("five")
		a.Close(t.Context())
		var whole []string
		for line := range strings.Lines(string(disk.bytes())) {
			var e Entry
			if json.Unmarshal([]byte(line), &e) == nil {
				whole = append(whole, e.Event)
			}
		}
		if diff := cmp.Diff(whole, []string{"one", "four", "five"}); diff != "" {
			t.Errorf("room for %d bytes: lines of the file (-got +want):\n%s", room, diff)
		}
		if failed.Load() != 2 || log.count("event=two") != 1 || log.count("event=three") != 1 {
			t.Errorf("room for %d bytes: %d failed, the log has %q", room, failed.Load(), log.lines())
		}
		if got := log.count(`msg="audit record not written (audit.file)" error="no space left on device"`); got != 2 {
			t.Errorf("room for %d bytes: the reason is told %d times, want 2", room, got)
		}
	}
}

// Whoever wrote the half of a line, this process or one that was killed: what is
// written after the file was opened again begins on a line of its own.
func TestAuditBehindATornLine(t *testing.T) {
	for _, tt := range []struct{ before, want string }{
		{"", ""},
		{"{\"event\":\"whole\"}\n", "{\"event\":\"whole\"}\n"},
		{"{\"event\":\"ha", "{\"event\":\"ha\n"},
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, []byte(tt.before), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := OpenAudit(path)
		if err != nil {
			t.Fatal(err)
		}
		a, _, failed := newAudit()
		a.Use(t.Context(), file)
		a.Record(t.Context(), Entry{Event: "next"})
		a.Close(t.Context())
		after, found := bytes.CutPrefix(read(t, path), []byte(tt.want))
		if got := entries(t, after); !found || len(got) != 1 || got[0].Event != "next" || failed.Load() != 0 {
			t.Errorf("after %q the file has %q", tt.before, read(t, path))
		}
	}
}

// A network's disk tells only at the end that it has kept nothing.
func TestAuditTellsOfAFailedClose(t *testing.T) {
	a, log, failed := newAudit()
	a.use(t.Context(), &sink{closing: syscall.EIO})
	a.Close(t.Context())
	if failed.Load() != 1 || log.count("input/output error") != 1 {
		t.Errorf("%d failed, the log has %q", failed.Load(), log.lines())
	}
}

// Nobody can fill the disk, nor hide among many what is not one of them; and the
// record says what it does not have.
func TestAuditAgainstAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, failed := newAudit()
		var out sink
		a.use(t.Context(), &out)
		const n = 5000
		for range n {
			a.Record(t.Context(), Entry{Event: "foreign_host"})
		}
		a.Record(t.Context(), Entry{Event: "foreign_session"})
		<-time.After(2 * time.Second)
		synctest.Wait()
		counts := make(map[string]int)
		for _, e := range entries(t, out.bytes()) {
			counts[e.Event]++
			if e.Event == eventDropped {
				counts[e.Detail]++
			}
		}
		want := map[string]int{
			"foreign_host": entriesPerSecond, "foreign_session": 1, eventDropped: 1,
			fmt.Sprintf(`%d entries "foreign_host", too many at once`, n-entriesPerSecond): 1,
		}
		if diff := cmp.Diff(counts, want); diff != "" || failed.Load() != 0 {
			t.Errorf("%d failed; entries (-got +want):\n%s", failed.Load(), diff)
		}
		a.Close(t.Context())
	})
}

// What is still to be told is told at the end.
func TestAuditClosesWithTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAudit()
		var out sink
		a.use(t.Context(), &out)
		for range entriesPerSecond + 5 {
			a.Record(t.Context(), Entry{Event: "x"})
		}
		a.Close(t.Context())
		all := entries(t, out.bytes())
		if got := all[len(all)-1]; got.Event != eventDropped || !strings.HasPrefix(got.Detail, "5 entries") {
			t.Errorf("the last entry is %+v", got)
		}
	})
}

// slowDisk takes its time for each line.
type slowDisk struct{ sink }

func (d *slowDisk) Write(p []byte) (int, error) {
	<-time.After(time.Second)
	return d.sink.Write(p)
}

// Who is refused cannot tell by the time that it takes whether that is recorded.
func TestAuditIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAudit()
		var disk slowDisk
		a.use(t.Context(), &disk)
		a.out.wait(t.Context())
		began := time.Now()
		for range 10 {
			a.Record(t.Context(), Entry{Event: "foreign_session"})
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("to record took %v", took)
		}
		a.Close(t.Context())
		if took := time.Since(began); took != 10*time.Second || len(entries(t, disk.bytes())) != 10 {
			t.Errorf("to close took %v, with %d entries; want all ten", took, len(entries(t, disk.bytes())))
		}
	})
}

// What has to be judged is judged elsewhere: who brings it does not wait, whatever
// comes of it. What is recorded after it stands after it, and so does a change of
// the file.
func TestAuditConsiders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, failed := newAudit()
		var first, second sink
		a.use(t.Context(), &first)
		began := time.Now()
		judge := func(event string, isOne bool) func() (Entry, bool) {
			return func() (Entry, bool) {
				<-time.After(time.Second)
				return Entry{Event: event}, isOne
			}
		}
		a.Consider(t.Context(), judge("hidden", true))
		a.Consider(t.Context(), judge("unknown", false))
		a.Record(t.Context(), Entry{Event: "later"})
		a.use(t.Context(), &second)
		a.Consider(t.Context(), judge("last", true))
		if took := time.Since(began); took != 0 {
			t.Errorf("to bring them took %v", took)
		}
		a.Close(t.Context())
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("to close took %v, want until all is judged", took)
		}
		for i, want := range [][]string{{"hidden", "later"}, {"last"}} {
			var got []string
			for _, e := range entries(t, []*sink{&first, &second}[i].bytes()) {
				got = append(got, e.Event)
				if !e.Time.Equal(began) {
					t.Errorf("%s has the time %v, want that when it happened, %v", e.Event, e.Time, began)
				}
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("file %d (-got +want):\n%s", i, diff)
			}
		}
		if failed.Load() != 0 {
			t.Errorf("%d failed", failed.Load())
		}
	})
}

// A disk that is stuck for good does not keep the gateway from ending, and the
// entries that do not fit are counted by what is written next.
func TestAuditOnAStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAudit()
		disk := &stuckDisk{free: make(chan struct{})}
		a.use(t.Context(), disk)
		a.out.wait(t.Context())
		for i := range maxQueue + 10 {
			a.Record(t.Context(), Entry{Event: fmt.Sprint(i % kindsOfEntry)})
		}
		ctx, stop := timeout(t, time.Second)
		defer stop()
		began := time.Now()
		a.Close(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("to close took %v, want no more than it may", took)
		}
		close(disk.free)
		a.out.wait(t.Context())
		all := entries(t, disk.bytes())
		dropped := 0
		for _, e := range all {
			if e.Event == eventDropped && strings.Contains(e.Detail, `"any"`) {
				dropped++
			}
		}
		if dropped != 1 || len(all) < maxQueue {
			t.Errorf("%d entries, %d tell of those that are lost", len(all), dropped)
		}
	})
}

type stuckDisk struct {
	sink
	free chan struct{}
}

func (d *stuckDisk) Write(p []byte) (int, error) {
	<-d.free
	return d.sink.Write(p)
}

// aCall is an entry about a call, with each member that one can have.
func aCall() Entry {
	return Entry{Principal: "ann", Session: "s1", Call: &Call{
		Client: "inspector 1", Method: "tools/call", Name: "a__now", Backend: "a", Outcome: Failed, Code: 1002, Delivery: "unknown",
		Millis: 1.5, Trace: "0af7651916cd43dd8448eb211c80319c",
	}}
}

// A call is a line with more members, in the file and nowhere else; what has no value
// of those that few calls have is left out.
func TestAuditOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log, failed := newAudit()
		a.RecordCall(t.Context(), aCall) // there is no file
		a.Close(t.Context())
		var out sink
		if a.HasCalls() || log.count("audit") > 0 {
			t.Errorf("without a file there are calls (%v): %q", a.HasCalls(), log.lines())
		}
		a.use(t.Context(), &out)
		if !a.HasCalls() {
			t.Error("with a file there are none")
		}
		a.RecordCall(t.Context(), aCall)
		a.RecordCall(t.Context(), func() Entry { return Entry{Call: &Call{Outcome: OK}} })
		a.Close(t.Context())
		at := time.Now().Format(time.RFC3339Nano)
		want := `{"time":"` + at + `","event":"call","principal":"ann","remote":"","session":"s1","detail":"","client":"inspector 1","method":"tools/call",` +
			`"name":"a__now","backend":"a","outcome":"failed","code":1002,"delivery":"unknown","durationMs":1.5,"trace":"0af7651916cd43dd8448eb211c80319c"}` + "\n" +
			`{"time":"` + at + `","event":"call","principal":"","remote":"","session":"","detail":"","client":"","method":"","name":"","backend":"","outcome":"ok","durationMs":0}` + "\n"
		if diff := cmp.Diff(string(out.bytes()), want); diff != "" || failed.Load() > 0 {
			t.Errorf("%d failed; file (-got +want):\n%s", failed.Load(), diff)
		}
	})
}

// Calls are not thinned out as events are, and one that the disk does not take is in
// the log with all that it says, and with the reason.
//
// X3- 2026-07-28 server/tools: "Log tool usage for audit purposes"
func TestAuditLosesNoCall(t *testing.T) {
	a, log, failed := newAudit()
	var disk sink
	a.use(t.Context(), &disk)
	const n = 10 * entriesPerSecond
	for range n {
		a.RecordCall(t.Context(), aCall)
	}
	a.out.wait(t.Context())
	if got := len(entries(t, disk.bytes())); got != n {
		t.Errorf("%d of %d calls are recorded", got, n)
	}
	disk.limit(0)
	a.RecordCall(t.Context(), aCall)
	a.Close(t.Context())
	const line = `level=WARN msg=audit event=call principal=ann remote="" session=s1 detail="" client="inspector 1" method=tools/call name=a__now ` +
		`backend=a outcome=failed code=1002 delivery=unknown durationMs=1.5 trace=0af7651916cd43dd8448eb211c80319c`
	if !slices.Contains(log.lines(), line) || log.count("no space left on device") != 1 || failed.Load() != 1 {
		t.Errorf("%d failed, the log has %q", failed.Load(), log.lines())
	}
}

// A disk that takes nothing holds up no call. What there is no room for is counted,
// and the record says so as soon as it can.
func TestCallsOnAStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAudit()
		disk := &stuckDisk{free: make(chan struct{})}
		a.use(t.Context(), disk)
		const more = 7
		for range 1 + maxCalls + more {
			a.RecordCall(t.Context(), aCall)
			synctest.Wait()
			if len(disk.bytes()) > 0 {
				t.Fatal("the disk is not stuck")
			}
		}
		close(disk.free)
		a.Close(t.Context())
		all := entries(t, disk.bytes())
		lost := fmt.Sprintf(`%d entries "call", too many at once`, more)
		if len(all) != 1+maxCalls+1 || !slices.ContainsFunc(all, func(e Entry) bool { return e.Event == eventDropped && e.Detail == lost }) {
			t.Errorf("%d entries, want %d and %q", len(all), 1+maxCalls+1, lost)
		}
	})
}
