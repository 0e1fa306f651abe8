// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Entry is one line of the audit record: who tried what. Detail is the value
// that it is about, which comes from outside; whoever makes the Entry has
// escaped and shortened it.
type Entry struct {
	Time      time.Time `json:"time"`
	Event     string    `json:"event"`
	Principal string    `json:"principal"`
	Remote    string    `json:"remote"`
	Session   string    `json:"session"`
	Detail    string    `json:"detail"`

	// Where the line is about a call, what it says besides; else nil.
	*Call
}

// Call is how a call went: who asked, through whom, for what, and how that ended.
// It has no arguments and no results. Its texts are escaped and shortened like a
// Detail.
type Call struct {
	Client   string  `json:"client"`             // what it calls itself
	Method   string  `json:"method"`             // tools/call, prompts/get, resources/read
	Name     string  `json:"name"`               // as clients know the item, or its URI
	Backend  string  `json:"backend"`            // "" where nobody was asked
	Outcome  Outcome `json:"outcome"`            // as the client was told
	Code     int64   `json:"code,omitzero"`      // of the error
	Delivery string  `json:"delivery,omitempty"` // whether a call that failed here may have run
	Millis   float64 `json:"durationMs"`         // from when it was taken until its end
	Trace    string  `json:"trace,omitempty"`    // the id of the trace that the client has it in
}

// Outcome is how a call ended.
type Outcome string

// The outcomes of calls.
const (
	OK            Outcome = "ok"
	ToolError     Outcome = "tool_error"     // the tool's own failure, which is a result
	InputRequired Outcome = "input_required" // the client is asked, and calls again
	TaskBegun     Outcome = "task"           // it goes on as a task
	Refused       Outcome = "error"          // an error of the backend, or of ours for what is not offered
	Cancelled     Outcome = "cancelled"      // by its client, or by the end of the gateway
	Failed        Outcome = "failed"         // the backend did not answer as it should
)

const (
	// entriesPerSecond of one event are recorded. What is behind them is a
	// program that tries its luck; the count is recorded with the next report.
	entriesPerSecond = 100

	// maxCalls is how many may wait for a disk that is stuck: some seconds of a
	// lively gateway, and a few megabytes. They take no room from events.
	maxCalls = 1 << 14

	// kindsOfEntry bounds what is remembered; events are constants of the code.
	kindsOfEntry = 32

	// callEvent is what an entry about a call is of.
	callEvent = "call"

	// eventDropped is an entry that stands for others.
	eventDropped = "dropped"
)

// Audit records events, one line of JSON each, in a file, or where there is none
// in the log. Its methods may be called concurrently, and wait for no disk: a
// goroutine writes while there is something to write, another one judges while
// there is something to judge, and Close waits for both.
//
// What cannot be written to the file goes to the log instead, with the reason,
// and is counted: the gateway goes on. Events of one kind that are too many in
// one second are counted by an entry "dropped": a record that anybody can have
// grow until the disk is full would be one that anybody can end. Calls are not
// among them: they come from who may call, and each is recorded, unless the file is
// so slow that there is no room for more to wait. Without a file there is no record
// of calls.
type Audit struct {
	log    *slog.Logger
	failed func() // an entry did not reach the file
	meter  *meter[string]
	asked  output // what may be an entry
	out    output

	keeps   atomic.Bool  // a file is, or is about to be, there for calls
	waiting atomic.Int64 // calls that are not written yet
	missing atomic.Int64 // calls that will not be, because too many were waiting

	file io.WriteCloser // nil is the log; belongs to who writes (output)
	torn bool           // it ends within a line; likewise
}

// NewAudit returns an Audit that writes to the log until Use gives it a file.
// failed is called for each entry that does not reach the file; it may not be nil
// and must not block.
func NewAudit(logger *slog.Logger, failed func()) *Audit {
	a := &Audit{log: logger, failed: failed}
	a.meter = newMeter(entriesPerSecond, kindsOfEntry, a.tell)
	a.asked.lost = func(n int) { a.tell("any", n) }
	a.out.lost = func(n int) { a.write(context.Background(), dropped("any", n)) }
	return a
}

// OpenAudit opens a file to append to, which is made if there is none. Other
// things than files are refused: a pipe that nobody reads would be waited for.
func OpenAudit(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w", path, errNoFile)
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

var errNoFile = errors.New("it is not a regular file")

// Use has all that follows written to another file, or with nil to the log, and
// closes the one before, after what has been recorded until now. The Audit owns
// the file.
func (a *Audit) Use(ctx context.Context, file *os.File) {
	var next io.WriteCloser
	if file != nil {
		next = file
	}
	a.use(ctx, next)
}

func (a *Audit) use(ctx context.Context, next io.WriteCloser) {
	a.keeps.Store(next != nil)
	ctx = context.WithoutCancel(ctx) // it is done whatever happens to who wants it
	a.asked.behind(0, func() { a.out.must(func() { a.change(ctx, next) }) })
}

// change is a job of the output, and so is alone with the file.
func (a *Audit) change(ctx context.Context, next io.WriteCloser) {
	if a.file != nil {
		a.tellMissing(ctx)
		a.complain(ctx, a.file.Close())
	}
	a.file, a.torn = next, endsTorn(next)
}

// endsTorn reports whether a file ends within a line: the disk was full, or the
// process that wrote there before was killed. A file that may not be read is taken
// for whole, since nothing can be known of it.
func endsTorn(file io.WriteCloser) bool {
	named, ok := file.(*os.File)
	if !ok {
		return false
	}
	f, err := os.Open(named.Name()) // the one for the record is for writing only
	if err != nil {
		return false
	}
	defer f.Close()
	var last [1]byte
	size, err := f.Seek(-1, io.SeekEnd)
	if err != nil { // it is empty
		return false
	}
	_, err = f.ReadAt(last[:], size)
	return err == nil && last[0] != '\n'
}

// Record adds an entry, with the time of now where it has none. The context
// carries values for the log and nothing else.
func (a *Audit) Record(ctx context.Context, e Entry) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	ctx = context.WithoutCancel(ctx)
	a.asked.behind(1, func() { a.record(ctx, e) })
}

func (a *Audit) record(ctx context.Context, e Entry) {
	if a.meter.admit(e.Event, time.Now()) {
		a.out.put(func() { a.write(ctx, e) })
	}
}

// HasCalls reports whether calls are recorded. It costs nothing.
func (a *Audit) HasCalls() bool { return a.keeps.Load() }

// RecordCall adds an entry about a call, as event "call" and with the time of now,
// at which it ended.
// It is made a moment later and elsewhere: the caller is held up by no encoding and
// no disk, and meets others only to leave it here.
func (a *Audit) RecordCall(ctx context.Context, entry func() Entry) {
	if a.waiting.Add(1) > maxCalls {
		a.missing.Add(1) // before it is no longer waited for: who writes the last one tells
		a.waiting.Add(-1)
		return
	}
	ctx = context.WithoutCancel(ctx)
	now := time.Now()
	a.out.mustBeside(func() {
		a.waiting.Add(-1)
		a.writeCall(ctx, now, entry)
	})
}

func (a *Audit) writeCall(ctx context.Context, ended time.Time, entry func() Entry) {
	a.tellMissing(ctx)
	if a.file == nil { // a reload has just ended the record
		return
	}
	e := entry()
	e.Time, e.Event = ended, callEvent
	a.write(ctx, e)
}

// tellMissing is a job of the output, or part of one.
func (a *Audit) tellMissing(ctx context.Context) {
	if n := a.missing.Swap(0); n > 0 {
		a.write(ctx, dropped(callEvent, int(n)))
	}
}

// Consider records what may be no entry: judge makes it, and reports whether it is
// one. That happens elsewhere and a moment later, so that it takes the caller the
// same time whatever comes of it: how long a refusal takes must not tell two
// reasons for it apart.
func (a *Audit) Consider(ctx context.Context, judge func() (Entry, bool)) {
	ctx = context.WithoutCancel(ctx)
	now := time.Now()
	a.asked.put(func() {
		if e, ok := judge(); ok {
			e.Time = now
			a.record(ctx, e)
		}
	})
}

// Close records what is still to be told and lets go of the file. It waits until
// that has happened, or until ctx ends. What is recorded later goes to the log.
func (a *Audit) Close(ctx context.Context) {
	a.asked.wait(ctx)
	a.meter.report()
	a.use(ctx, nil)
	a.asked.wait(ctx) // it may have come behind something
	a.out.wait(ctx)
}

// tell records that n entries of an event were left out.
func (a *Audit) tell(event string, n int) {
	a.out.putFor(n, func() { a.write(context.Background(), dropped(event, n)) })
}

func dropped(event string, n int) Entry {
	return Entry{Time: time.Now(), Event: eventDropped, Detail: fmt.Sprintf("%d entries %q, too many at once", n, event)}
}

// write is a job of the output, and so is alone with the file.
func (a *Audit) write(ctx context.Context, e Entry) {
	if a.file == nil {
		a.logEntry(ctx, e)
		return
	}
	// Not even a detail that is no UTF-8 may cost an entry.
	line, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true))
	if err == nil {
		err = a.append(line)
	}
	if err != nil {
		a.complain(ctx, err)
		a.logEntry(ctx, e)
	}
}

// append writes a line. After one that could not be written whole the next begins
// on a line of its own.
func (a *Audit) append(line []byte) error {
	if a.torn {
		line = append([]byte("\n"), line...)
	}
	n, err := a.file.Write(append(line, '\n'))
	if err != nil && n > 0 {
		a.torn = true
	}
	if err == nil {
		a.torn = false
	}
	return err
}

func (a *Audit) logEntry(ctx context.Context, e Entry) {
	attrs := []slog.Attr{
		slog.String("event", e.Event), slog.String("principal", e.Principal), slog.String("remote", e.Remote),
		slog.String("session", e.Session), slog.String("detail", e.Detail),
	}
	if e.Call != nil {
		attrs = append(attrs, e.attrs()...)
	}
	a.log.LogAttrs(ctx, slog.LevelWarn, "audit", attrs...)
}

func (c *Call) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("client", c.Client), slog.String("method", c.Method), slog.String("name", c.Name),
		slog.String("backend", c.Backend), slog.String("outcome", string(c.Outcome)), slog.Int64("code", c.Code),
		slog.String("delivery", c.Delivery), slog.Float64("durationMs", c.Millis), slog.String("trace", c.Trace),
	}
}

// complain tells that an entry did not get to where it belongs. It is a warning
// and not an error so that the log can bound it: a full disk fails every entry.
func (a *Audit) complain(ctx context.Context, err error) {
	if err == nil {
		return
	}
	a.failed()
	a.log.LogAttrs(ctx, slog.LevelWarn, "audit record not written (audit.file)", slog.Any("error", err))
}
