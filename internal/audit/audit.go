// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit records who called what, and what was refused, as lines of JSON.
//
// The record is bounded, because attackers can cause entries. What is dropped is counted, and
// the count is recorded in its place.
package audit

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

	"github.com/signalbox-mcp/signalbox/internal/logging"
)

// Entry is one line of the audit record. Detail is the value that the event concerns. It is
// untrusted, and the creator of the Entry has escaped and shortened it.
type Entry struct {
	Time      time.Time `json:"time"`
	Event     string    `json:"event"`
	Principal string    `json:"principal"`
	Remote    string    `json:"remote"`
	Session   string    `json:"session"`
	Detail    string    `json:"detail"`

	// What is known about the caller and why it was served or refused. Each is omitted if
	// it is empty, and none contains an argument or a credential.
	Via      string `json:"via,omitempty"`      // the form of the credential, such as jwt
	Decision string `json:"decision,omitempty"` // of the policy
	Rule     string `json:"rule,omitempty"`     // that has decided
	Answer   string `json:"answer,omitempty"`   // of the user that the rule asks
	As       string `json:"as,omitempty"`       // the owner of the credentials that the backend got: user or gateway

	// Call is set for an entry about a call; else it is nil.
	*Call
}

// Call describes a call and its outcome, without arguments and results. Its texts are escaped
// and shortened like a Detail.
type Call struct {
	ID       string  `json:"call,omitempty"`     // as in the errors of the gateway
	Parent   string  `json:"parent,omitempty"`   // the call that has made it, if any
	Client   string  `json:"client"`             // the name in its client info
	Method   string  `json:"method"`             // tools/call, prompts/get, resources/read, or that of an extension
	Name     string  `json:"name"`               // as clients know the item, or its URI
	Named    string  `json:"named,omitempty"`    // own: the client has named it as its backend does
	Passed   string  `json:"passed,omitempty"`   // unread, for a method without anything else read
	Said     string  `json:"said,omitempty"`     // the name or URI in the request, if it is another one
	Backend  string  `json:"backend"`            // "" if none was asked
	Outcome  Outcome `json:"outcome"`            // as reported to the client
	Code     int64   `json:"code,omitzero"`      // of the error
	Delivery string  `json:"delivery,omitempty"` // whether a failed call may have run
	Millis   float64 `json:"durationMs"`         // from its arrival to its end

	// What is known of the calls that it has made. Each is omitted without such calls.
	Inner         int     `json:"innerCalls,omitzero"`     // how many
	InnerOutcome  Outcome `json:"innerOutcome,omitempty"`  // of the worst
	InnerDelivery string  `json:"innerDelivery,omitempty"` // of the same one

	Trace string `json:"trace,omitempty"` // the client's trace ID
}

// Outcome is how a call ended.
type Outcome string

// The outcomes of calls.
const (
	OK            Outcome = "ok"
	ToolError     Outcome = "tool_error"     // a result with isError
	InputRequired Outcome = "input_required" // the client is asked for input, and retries
	TaskBegun     Outcome = "task"           // the call continues as a task
	Refused       Outcome = "error"          // an error of the backend, or of the gateway for an unknown name
	Cancelled     Outcome = "cancelled"      // by the client, or by a shutdown
	Failed        Outcome = "failed"         // the backend did not respond, or not correctly
)

const (
	// entriesPerSecond is the maximum number of entries for one event. More are caused by
	// a program that probes, and are counted in the next report.
	entriesPerSecond = 100

	// maxCalls bounds the calls waiting to be written: some seconds of a busy gateway,
	// and a few MiB. They do not count against the queue of events.
	maxCalls = 1 << 14

	// kindsOfEntry bounds the events with meters. Events are constants of the code.
	kindsOfEntry = 32

	// callEvent is the event of an entry about a call.
	callEvent = "call"

	// eventDropped is the event of an entry that counts dropped entries.
	eventDropped = "dropped"
)

// Recorder records events and calls in a file, one line of JSON each. Without a file, events are
// logged and calls are not recorded. Its methods may be called concurrently and do not wait
// for the disk. One goroutine writes while there are entries to write, another one evaluates
// what was passed to Consider; Close waits for both.
//
// An entry that cannot be written to the file is logged with the reason and counted, and the
// gateway continues. If there are too many entries for one event in a second, the rest is
// counted by an entry "dropped": otherwise an attacker could fill the disk and thus end the
// record. Calls are not limited in this way, as they are made by accepted callers: each is
// recorded, unless the file is so slow that too many are waiting.
type Recorder struct {
	log       *slog.Logger
	failed    func() // called for an entry that did not reach the file
	meter     *logging.Meter[string]
	decisions logging.JobQueue // decisions whether to record an entry
	out       logging.JobQueue

	recording atomic.Bool  // whether calls are recorded; set before the file is
	waiting   atomic.Int64 // the number of calls not yet written
	missing   atomic.Int64 // the number of calls dropped because too many were waiting

	file    io.WriteCloser // nil means the log; used only by jobs of out
	partial bool           // the file ends within a line; used only by jobs of out
}

// New returns a Recorder that writes to the log until Use sets a file. failed is called for
// each entry that does not reach the file; it must not be nil and must not block.
func New(logger *slog.Logger, failed func()) *Recorder {
	a := &Recorder{log: logger, failed: failed}
	a.meter = logging.NewMeter(entriesPerSecond, kindsOfEntry, a.recordDropped)
	a.decisions.DropFunc = func(n int) { a.recordDropped("any", n) }
	a.out.DropFunc = func(n int) { a.write(context.Background(), dropped("any", n)) }
	return a
}

// Open opens a file for appending, and creates it if necessary. Only regular files are
// permitted: opening a pipe without a reader would block.
func Open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w", path, errNoFile)
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

var errNoFile = errors.New("it is not a regular file")

// Use makes the Recorder write to file, or to the log if file is nil, and closes the previous
// file after the entries recorded so far. The Recorder owns the file.
func (a *Recorder) Use(ctx context.Context, file *os.File) {
	var next io.WriteCloser
	if file != nil {
		next = file
	}
	a.use(ctx, next)
}

func (a *Recorder) use(ctx context.Context, next io.WriteCloser) {
	a.recording.Store(next != nil)
	ctx = context.WithoutCancel(ctx) // must complete even if the caller is canceled
	a.decisions.RunAfter(0, func() {
		a.out.PutAlways(func() {
			if a.file != nil {
				a.recordMissing(ctx)
				a.logFailure(ctx, a.file.Close())
			}
			a.file, a.partial = next, endsPartial(next)
		})
	})
}

// endsPartial reports whether a file ends within a line, because the disk was full or the
// previous process was killed. A file that cannot be read is assumed to be complete.
func endsPartial(file io.WriteCloser) bool {
	named, ok := file.(*os.File)
	if !ok {
		return false
	}
	f, err := os.Open(named.Name()) // file itself is open for writing only
	if err != nil {
		return false
	}
	defer f.Close()
	var last [1]byte
	size, err := f.Seek(-1, io.SeekEnd)
	if err != nil { // empty
		return false
	}
	_, err = f.ReadAt(last[:], size)
	return err == nil && last[0] != '\n'
}

// Record adds an entry, with the current time if it has none. ctx is used only for values for
// the log.
func (a *Recorder) Record(ctx context.Context, e Entry) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	ctx = context.WithoutCancel(ctx)
	a.decisions.RunAfter(1, func() { a.record(ctx, e) })
}

func (a *Recorder) record(ctx context.Context, e Entry) {
	if a.meter.Admit(e.Event, time.Now()) {
		a.out.Put(func() { a.write(ctx, e) })
	}
}

// HasCalls reports whether calls are recorded. It is cheap.
func (a *Recorder) HasCalls() bool { return a.recording.Load() }

// RecordCall adds an entry about a call, with the event "call" and the current time as its
// end. entry is called later on another goroutine, so that the caller waits for neither
// encoding nor disk, only for the lock of the queue.
func (a *Recorder) RecordCall(ctx context.Context, entry func() Entry) {
	if a.waiting.Add(1) > maxCalls {
		a.missing.Add(1) // before waiting is decremented, so that the last call's job reports it
		a.waiting.Add(-1)
		return
	}
	ctx = context.WithoutCancel(ctx)
	now := time.Now()
	a.out.PutSeparate(func() {
		a.waiting.Add(-1)
		a.recordMissing(ctx)
		if a.file == nil { // a reload has just ended the record
			return
		}
		e := entry()
		e.Time, e.Event = now, callEvent
		a.write(ctx, e)
	})
}

// recordMissing must be called by a job of out.
func (a *Recorder) recordMissing(ctx context.Context) {
	if n := a.missing.Swap(0); n > 0 {
		a.write(ctx, dropped(callEvent, int(n)))
	}
}

// Consider calls judge later on another goroutine, and records the Entry if it returns true.
// The time that the caller needs thus does not depend on the result: the duration of a refusal
// must not reveal its reason.
func (a *Recorder) Consider(ctx context.Context, judge func() (Entry, bool)) {
	ctx = context.WithoutCancel(ctx)
	now := time.Now()
	a.decisions.Put(func() {
		if e, ok := judge(); ok {
			e.Time = now
			a.record(ctx, e)
		}
	})
}

// Close writes what is outstanding and closes the file. It returns when that is done, or when
// ctx ends. Later entries are logged.
func (a *Recorder) Close(ctx context.Context) {
	a.decisions.Wait(ctx)
	a.meter.Report()
	a.use(ctx, nil)
	a.decisions.Wait(ctx) // the first wait may have ended before the job was queued
	a.out.Wait(ctx)
}

// recordDropped records that n entries of an event were dropped.
func (a *Recorder) recordDropped(event string, n int) {
	a.out.PutFor(n, func() { a.write(context.Background(), dropped(event, n)) })
}

func dropped(event string, n int) Entry {
	return Entry{Time: time.Now(), Event: eventDropped, Detail: fmt.Sprintf("%d entries %q, too many at once", n, event)}
}

// write is run as a job of out, and thus has exclusive access to the file.
func (a *Recorder) write(ctx context.Context, e Entry) {
	if a.file == nil {
		a.logEntry(ctx, e)
		return
	}
	// An entry with invalid UTF-8 must not be lost.
	line, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true))
	if err == nil {
		err = a.append(line)
	}
	if err != nil {
		a.logFailure(ctx, err)
		a.logEntry(ctx, e)
	}
}

// append writes a line. If the previous write was incomplete, it begins a new line first.
func (a *Recorder) append(line []byte) error {
	if a.partial {
		line = append([]byte("\n"), line...)
	}
	n, err := a.file.Write(append(line, '\n'))
	if err == nil || n > 0 {
		a.partial = err != nil
	}
	return err
}

// logEntry logs an entry with the members that it has in a file, but for the time.
func (a *Recorder) logEntry(ctx context.Context, e Entry) {
	attrs := []slog.Attr{
		slog.String("event", e.Event), slog.String("principal", e.Principal), slog.String("remote", e.Remote),
		slog.String("session", e.Session), slog.String("detail", e.Detail),
	}
	rare := []slog.Attr{
		slog.String("via", e.Via), slog.String("decision", e.Decision), slog.String("rule", e.Rule),
		slog.String("answer", e.Answer), slog.String("as", e.As),
	}
	if c := e.Call; c != nil {
		attrs = append(attrs,
			slog.String("call", c.ID), slog.String("client", c.Client), slog.String("method", c.Method), slog.String("name", c.Name),
			slog.String("backend", c.Backend), slog.String("outcome", string(c.Outcome)), slog.Int64("code", c.Code),
			slog.String("delivery", c.Delivery), slog.Float64("durationMs", c.Millis), slog.String("trace", c.Trace))
		rare = append(rare,
			slog.String("parent", c.Parent), slog.String("named", c.Named), slog.String("passed", c.Passed), slog.String("said", c.Said),
			slog.Int("innerCalls", c.Inner), slog.String("innerOutcome", string(c.InnerOutcome)), slog.String("innerDelivery", c.InnerDelivery))
	}
	for _, r := range rare {
		if v := r.Value.Any(); v != "" && v != int64(0) {
			attrs = append(attrs, r)
		}
	}
	a.log.LogAttrs(ctx, slog.LevelWarn, "audit", attrs...)
}

// logFailure logs that an entry did not reach the file. The level is a warning, so that the
// rate is limited: a full disk fails every entry.
func (a *Recorder) logFailure(ctx context.Context, err error) {
	if err == nil {
		return
	}
	a.failed()
	a.log.LogAttrs(ctx, slog.LevelWarn, "audit record not written (audit.file)", slog.Any("error", err))
}
