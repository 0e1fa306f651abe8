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
}

const (
	// entriesPerSecond of one event are recorded. What is behind them is a
	// program that tries its luck; the count is recorded with the next report.
	entriesPerSecond = 100

	// kindsOfEntry bounds what is remembered; events are constants of the code.
	kindsOfEntry = 32

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
// grow until the disk is full would be one that anybody can end.
type Audit struct {
	log    *slog.Logger
	failed func() // an entry did not reach the file
	meter  *meter[string]
	asked  output // what may be an entry
	out    output

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
	ctx = context.WithoutCancel(ctx) // it is done whatever happens to who wants it
	a.asked.behind(0, func() { a.out.must(func() { a.change(ctx, next) }) })
}

// change is a job of the output, and so is alone with the file.
func (a *Audit) change(ctx context.Context, next io.WriteCloser) {
	if a.file != nil {
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
	a.log.LogAttrs(ctx, slog.LevelWarn, "audit",
		slog.String("event", e.Event), slog.String("principal", e.Principal), slog.String("remote", e.Remote),
		slog.String("session", e.Session), slog.String("detail", e.Detail))
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
