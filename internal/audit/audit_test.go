// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/logging"
	"github.com/signalbox-mcp/signalbox/internal/logging/logtest"
)

// newAudit returns a Recorder, its log, and the number of entries that have not reached their
// file.
func newAudit() (a *Recorder, log *logtest.Log, failed *atomic.Int64) {
	log, failed = new(logtest.Log), new(atomic.Int64)
	return New(slog.New(log.Handler()), func() { failed.Add(1) }), log, failed
}

// openIn opens a file in the test's folder.
func openIn(t *testing.T, name string) (path string, file *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	file, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, file
}

// entries parses a record line by line.
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
	if failed.Load() != 0 || log.Count("audit") != 0 {
		t.Errorf("%d failed, the log has %q", failed.Load(), log.Lines())
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

// An entry with invalid UTF-8 is not lost.
func TestAuditTakesAnyBytes(t *testing.T) {
	a, log, failed := newAudit()
	path, file := openIn(t, "audit.jsonl")
	a.Use(t.Context(), file)
	a.Record(t.Context(), Entry{Event: "x", Detail: "\xff\xfe"})
	a.Close(t.Context())
	if got := entries(t, read(t, path)); len(got) != 1 || failed.Load() != 0 {
		t.Errorf("%d entries, %d failed: %q", len(got), failed.Load(), log.Lines())
	}
}

// Without a file the entries are logged.
func TestAuditInTheLog(t *testing.T) {
	a, log, failed := newAudit()
	a.Record(t.Context(), Entry{Event: "foreign_host", Principal: "p", Remote: "r", Session: "s", Detail: "evil.example"})
	a.Close(t.Context())
	a.Record(t.Context(), Entry{Event: "after the end"})
	a.out.Wait(t.Context())
	want := []string{
		`level=WARN msg=audit event=foreign_host principal=p remote=r session=s detail=evil.example`,
		`level=WARN msg=audit event="after the end" principal="" remote="" session="" detail=""`,
	}
	if diff := cmp.Diff(log.Lines(), want); diff != "" || failed.Load() != 0 {
		t.Errorf("log (-got +want):\n%s", diff)
	}
}

// The file is created if necessary, accessible to its owner only, and appended to.
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
		func() (*os.File, error) { return Open(path) },
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

// After a reload with another file, entries are written to the new one.
func TestAuditRotates(t *testing.T) {
	a, _, failed := newAudit()
	path, file := openIn(t, "audit.jsonl")
	a.Use(t.Context(), file)
	a.Record(t.Context(), Entry{Event: "before"})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	a.Record(t.Context(), Entry{Event: "moved away"})
	again, err := Open(path)
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

// sink is a file that fails on demand, like a disk with limited space.
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

// On a full disk no entry is lost: it is logged with the reason, and counted. When there is
// space again, the next entry begins on its own line.
func TestAuditOnAFullDisk(t *testing.T) {
	for _, room := range []int{0, 1, 40} {
		a, log, failed := newAudit()
		var disk sink
		a.use(t.Context(), &disk)
		record := func(event string) {
			a.Record(t.Context(), Entry{Event: event})
			a.out.Wait(t.Context())
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
		if failed.Load() != 2 || log.Count("event=two") != 1 || log.Count("event=three") != 1 {
			t.Errorf("room for %d bytes: %d failed, the log has %q", room, failed.Load(), log.Lines())
		}
		if got := log.Count(`msg="audit record not written (audit.file)" error="no space left on device"`); got != 2 {
			t.Errorf("room for %d bytes: the reason is told %d times, want 2", room, got)
		}
	}
}

// An incomplete line, of this process or of one that was killed, is followed by a line break
// when the file is opened again.
func TestAuditAfterAPartialLine(t *testing.T) {
	for _, tt := range []struct{ before, want string }{
		{"", ""},
		{"{\"event\":\"whole\"}\n", "{\"event\":\"whole\"}\n"},
		{"{\"event\":\"ha", "{\"event\":\"ha\n"},
	} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, []byte(tt.before), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(path)
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

// A network file system may report only at the end that nothing was written.
func TestAuditReportsFailedClose(t *testing.T) {
	a, log, failed := newAudit()
	a.use(t.Context(), &sink{closing: syscall.EIO})
	a.Close(t.Context())
	if failed.Load() != 1 || log.Count("input/output error") != 1 {
		t.Errorf("%d failed, the log has %q", failed.Load(), log.Lines())
	}
}

// A flood cannot fill the disk or hide other events, and the record has the number of dropped
// entries.
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

// Close records outstanding counts.
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

// slowDisk takes a while for each line.
type slowDisk struct{ sink }

func (d *slowDisk) Write(p []byte) (int, error) {
	<-time.After(time.Second)
	return d.sink.Write(p)
}

// The time of a refusal does not reveal whether it is recorded.
func TestAuditIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAudit()
		var disk slowDisk
		a.use(t.Context(), &disk)
		a.out.Wait(t.Context())
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

// Consider evaluates entries on another goroutine, and the caller does not wait. Later entries
// and changes of the file stay in order.
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

// A disk that blocks forever does not prevent the shutdown, and dropped entries are counted by
// the next write.
func TestAuditOnAStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newAudit()
		disk := &stuckDisk{free: make(chan struct{})}
		a.use(t.Context(), disk)
		a.out.Wait(t.Context())
		for i := range logging.MaxQueue + 10 {
			a.Record(t.Context(), Entry{Event: fmt.Sprint(i % kindsOfEntry)})
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		began := time.Now()
		a.Close(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("to close took %v, want no more than it may", took)
		}
		close(disk.free)
		a.out.Wait(t.Context())
		all := entries(t, disk.bytes())
		dropped := 0
		for _, e := range all {
			if e.Event == eventDropped && strings.Contains(e.Detail, `"any"`) {
				dropped++
			}
		}
		if dropped != 1 || len(all) < logging.MaxQueue {
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

// aCall returns an entry about a call, with all members.
func aCall() Entry {
	return Entry{Principal: "ann", Session: "s1", Call: &Call{
		ID: "7k3m9-q2xfa", Client: "inspector 1", Method: "tools/call", Name: "a__now", Backend: "a", Outcome: Failed, Code: 1002, Delivery: "unknown",
		Millis: 1.5, Trace: "0af7651916cd43dd8448eb211c80319c",
	}}
}

// An entry that cannot be written is logged with each member that it would have in the file.
func TestAuditLogsEachMember(t *testing.T) {
	full := Entry{Call: new(Call)}
	fill(reflect.ValueOf(&full).Elem())
	members := map[string]any{}
	raw, err := json.Marshal(full)
	if err != nil || json.Unmarshal(raw, &members) != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	full.Rule, members["rule"] = "0", "0" // a name like any other
	a, log, _ := newAudit()
	disk := sink{limited: true}
	a.use(t.Context(), &disk)
	a.Record(t.Context(), full)
	a.Close(t.Context())
	delete(members, "time") // the log has its own
	for name, value := range members {
		if log.Count(fmt.Sprintf(" %s=%v", name, value)) != 1 {
			t.Errorf("%s is not in the log: %q", name, log.Lines())
		}
	}
}

// fill sets each text to the name of its field, and each number to 7.
func fill(v reflect.Value) {
	for field, at := range v.Fields() {
		switch at.Kind() {
		case reflect.String:
			at.SetString(field.Name)
		case reflect.Int, reflect.Int64:
			at.SetInt(7)
		case reflect.Float64:
			at.SetFloat(7)
		case reflect.Pointer:
			fill(at.Elem())
		default: // the time
		}
	}
}

// A call is a line with additional members, and is recorded in a file only. Rare members are
// omitted if they have no value.
func TestAuditOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log, failed := newAudit()
		a.RecordCall(t.Context(), aCall) // there is no file
		a.Close(t.Context())
		var out sink
		if a.HasCalls() || log.Count("audit") > 0 {
			t.Errorf("without a file there are calls (%v): %q", a.HasCalls(), log.Lines())
		}
		a.use(t.Context(), &out)
		if !a.HasCalls() {
			t.Error("with a file there are none")
		}
		a.RecordCall(t.Context(), aCall)
		a.RecordCall(t.Context(), func() Entry { return Entry{Call: &Call{Outcome: OK}} })
		a.Close(t.Context())
		at := time.Now().Format(time.RFC3339Nano)
		want := `{"time":"` + at + `","event":"call","principal":"ann","remote":"","session":"s1","detail":"","call":"7k3m9-q2xfa","client":"inspector 1","method":"tools/call",` +
			`"name":"a__now","backend":"a","outcome":"failed","code":1002,"delivery":"unknown","durationMs":1.5,"trace":"0af7651916cd43dd8448eb211c80319c"}` + "\n" +
			`{"time":"` + at + `","event":"call","principal":"","remote":"","session":"","detail":"","client":"","method":"","name":"","backend":"","outcome":"ok","durationMs":0}` + "\n"
		if diff := cmp.Diff(string(out.bytes()), want); diff != "" || failed.Load() > 0 {
			t.Errorf("%d failed; file (-got +want):\n%s", failed.Load(), diff)
		}
	})
}

// Calls are not rate-limited like events. A call that cannot be written is logged completely,
// with the reason.
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
	a.out.Wait(t.Context())
	if got := len(entries(t, disk.bytes())); got != n {
		t.Errorf("%d of %d calls are recorded", got, n)
	}
	disk.limit(0)
	a.RecordCall(t.Context(), aCall)
	a.Close(t.Context())
	const line = `level=WARN msg=audit event=call principal=ann remote="" session=s1 detail="" call=7k3m9-q2xfa client="inspector 1" method=tools/call name=a__now ` +
		`backend=a outcome=failed code=1002 delivery=unknown durationMs=1.5 trace=0af7651916cd43dd8448eb211c80319c`
	if !slices.Contains(log.Lines(), line) || log.Count("no space left on device") != 1 || failed.Load() != 1 {
		t.Errorf("%d failed, the log has %q", failed.Load(), log.Lines())
	}
}

// A blocked disk blocks no call. Dropped calls are counted, and recorded as soon as possible.
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
