// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging bounds what is written about events, because attackers can cause them.
//
// A bound is never silent: what is dropped is counted, and the count is written in its place.
// A writer that blocks does not block the code that reports an event.
package logging

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

const (
	// recordsPerSecond is the maximum for one level, message and backend: more than a
	// person can read, and little for a disk.
	recordsPerSecond = 50

	// kindsOfRecord bounds the kinds of records with meters. Messages are constants of the
	// code, a few hundred, some of them multiplied by backends.
	kindsOfRecord = 512
)

// isSubject reports whether an attribute identifies what a record is about and has few values.
// Records about one backend or event must not displace those about others.
func isSubject(a slog.Attr) bool { return a.Key == "backend" || a.Key == "event" }

// Bounded is a [slog.Handler] that limits the rate of records and never blocks. Its methods
// may be called concurrently.
//
// It passes a limited number of records per second with the same level, message and backend or
// event; the rest is counted, and logged as one record per second. Errors always pass. If the
// inner handler blocks, because its output is not read, a bounded number of records is queued,
// and the rest is counted, too.
//
// Records are written later by another goroutine, so their values must not change.
type Bounded struct {
	inner   slog.Handler // with the attributes and groups of its logger
	subject string       // the subject in these attributes
	*flow
}

// flow is shared by all handlers derived from one Bound.
type flow struct {
	meter   *Meter[recordKind]
	out     JobQueue
	handler slog.Handler // without attributes, for the flow's own records
}

type recordKind struct {
	level            slog.Level
	message, subject string
}

// Bound returns a bounded handler around h. Flush should be called at the end.
func Bound(h slog.Handler) *Bounded {
	f := &flow{handler: h}
	f.meter = NewMeter(recordsPerSecond, kindsOfRecord, f.logDropped)
	f.out.DropFunc = func(n int) {
		f.write(slog.LevelWarn, "log records dropped: the log is written too slowly", slog.Int("count", n))
	}
	return &Bounded{inner: h, flow: f}
}

// Enabled calls the inner handler.
func (b *Bounded) Enabled(ctx context.Context, level slog.Level) bool {
	return b.inner.Enabled(ctx, level)
}

// WithAttrs returns a handler with additional attributes. It shares the limits of b.
func (b *Bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := &Bounded{inner: b.inner.WithAttrs(attrs), subject: b.subject, flow: b.flow}
	if i := slices.IndexFunc(attrs, isSubject); i >= 0 {
		next.subject = attrs[i].Value.String()
	}
	return next
}

// WithGroup returns a handler with a group. It shares the limits of b.
func (b *Bounded) WithGroup(name string) slog.Handler {
	return &Bounded{inner: b.inner.WithGroup(name), subject: b.subject, flow: b.flow}
}

// Handle writes the record, or counts it. It returns no error: those of the inner handler are
// ignored, as there is no other log.
func (b *Bounded) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError && !b.admit(&r) {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the record may be written after the request has ended
	r = r.Clone()
	b.out.Put(func() { _ = b.inner.Handle(ctx, r) }) // there is no other log
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
	return b.meter.Admit(recordKind{r.Level, r.Message, subject}, time.Now())
}

// logDropped logs that n records of a kind were dropped.
func (f *flow) logDropped(kind recordKind, n int) {
	attrs := []slog.Attr{slog.String("message", kind.message), slog.Int("count", n)}
	if kind.subject != "" {
		attrs = append(attrs, slog.String("about", kind.subject))
	}
	f.out.PutFor(n, func() { f.write(kind.level, "log records dropped: too many at once", attrs...) })
}

func (f *flow) write(level slog.Level, message string, attrs ...slog.Attr) {
	r := slog.NewRecord(time.Now(), level, message, 0)
	r.AddAttrs(attrs...)
	_ = f.handler.Handle(context.Background(), r) // there is no other log
}

// Flush logs the numbers of dropped records and returns when everything is written, or when
// ctx ends.
func (b *Bounded) Flush(ctx context.Context) {
	b.meter.Report()
	b.out.Wait(ctx)
}
