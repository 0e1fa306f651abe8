// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

const (
	// recordsPerSecond of one level, message and backend are logged. It is more
	// than anybody reads, and nothing to a disk.
	recordsPerSecond = 50

	// kindsOfRecord bounds what is remembered of a log: messages are constants
	// of the code, a few hundred, some of them once for each backend.
	kindsOfRecord = 512
)

// isSubject reports whether an attribute says whom or what a record is about, and
// has few values. One backend's noise must not hide another's, nor one kind of
// event another.
func isSubject(a slog.Attr) bool { return a.Key == "backend" || a.Key == "event" }

// Bounded is a [slog.Handler] around another that nobody can flood, and that nobody
// waits for. Its methods may be called concurrently.
//
// Of the records of one level, message and backend, or event, so many pass in a
// second as a person could want; the others are counted, and one record a second
// says how many there were. Errors always pass. When the handler below does not return,
// because nobody reads what it writes, a bounded number of records waits, and
// the rest is counted too.
//
// A record is written by another goroutine than the one that logged it, and a
// moment later; what it holds must not change.
type Bounded struct {
	inner   slog.Handler // with the attributes and groups of its logger
	subject string       // among those attributes
	*flow
}

// flow is what all handlers have in common that come from one Bound.
type flow struct {
	meter *meter[recordKind]
	out   output
	plain slog.Handler // without attributes, for what the flow itself has to say
}

type recordKind struct {
	level            slog.Level
	message, subject string
}

// Bound returns a bounded handler around h. Flush should be called at the end.
func Bound(h slog.Handler) *Bounded {
	f := &flow{plain: h}
	f.meter = newMeter(recordsPerSecond, kindsOfRecord, f.tell)
	f.out.lost = func(n int) {
		f.write(slog.LevelWarn, "log records dropped: the log was not taken", slog.Int("count", n))
	}
	return &Bounded{inner: h, flow: f}
}

// Enabled asks the handler below.
func (b *Bounded) Enabled(ctx context.Context, level slog.Level) bool {
	return b.inner.Enabled(ctx, level)
}

// WithAttrs returns a handler whose records have the attributes. It shares the
// bounds of b.
func (b *Bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := &Bounded{inner: b.inner.WithAttrs(attrs), subject: b.subject, flow: b.flow}
	if i := slices.IndexFunc(attrs, isSubject); i >= 0 {
		next.subject = attrs[i].Value.String()
	}
	return next
}

// WithGroup returns a handler that puts attributes into a group. It shares the
// bounds of b.
func (b *Bounded) WithGroup(name string) slog.Handler {
	return &Bounded{inner: b.inner.WithGroup(name), subject: b.subject, flow: b.flow}
}

// Handle writes the record, or counts it. It has no errors: what the handler
// below has to say about a record is not told, as a log has nowhere to.
func (b *Bounded) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError && !b.admit(&r) {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // it may be written after the request
	r = r.Clone()
	b.out.put(func() { _ = b.inner.Handle(ctx, r) }) // there is nobody else to tell
	return nil
}

// admit reports whether a record may pass.
func (b *Bounded) admit(r *slog.Record) bool {
	subject := b.subject
	r.Attrs(func(a slog.Attr) bool {
		if isSubject(a) {
			subject = a.Value.String()
		}
		return !isSubject(a)
	})
	return b.meter.admit(recordKind{r.Level, r.Message, subject}, time.Now())
}

// tell says that n records of a kind were left out.
func (f *flow) tell(kind recordKind, n int) {
	attrs := []slog.Attr{slog.String("message", kind.message), slog.Int("count", n)}
	if kind.subject != "" {
		attrs = append(attrs, slog.String("about", kind.subject))
	}
	f.out.putFor(n, func() { f.write(kind.level, "log records dropped: too many at once", attrs...) })
}

func (f *flow) write(level slog.Level, message string, attrs ...slog.Attr) {
	r := slog.NewRecord(time.Now(), level, message, 0)
	r.AddAttrs(attrs...)
	_ = f.plain.Handle(context.Background(), r) // there is nobody else to tell
}

// Flush tells what was left out so far and waits until all is written, or until
// ctx ends.
func (b *Bounded) Flush(ctx context.Context) {
	b.meter.report()
	b.out.wait(ctx)
}
