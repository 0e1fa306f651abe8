// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/logging/logtest"
)

// A flood of refusals is logged as some lines, and one with the number of dropped records.
func TestBoundAgainstAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b logtest.Log
		log := slog.New(Bound(b.Handler()))
		const n = 10_000
		for i := range n {
			log.LogAttrs(t.Context(), slog.LevelWarn, "request refused", slog.Int("n", i))
		}
		log.LogAttrs(t.Context(), slog.LevelWarn, "something else")
		<-time.After(2 * time.Second)
		synctest.Wait()
		if got := b.Count(`msg="request refused"`); got != recordsPerSecond {
			t.Errorf("%d records of the flood, want %d", got, recordsPerSecond)
		}
		if b.Count(`msg="something else"`) != 1 {
			t.Error("the flood has taken another message with it")
		}
		lines := b.Lines()
		want := fmt.Sprintf(`level=WARN msg="log records dropped: too many at once" message="request refused" count=%d`, n-recordsPerSecond)
		if got := lines[len(lines)-1]; got != want {
			t.Errorf("the last line is %s\nwant %s", got, want)
		}
	})
}

// Levels, backends and events are counted separately: one must not hide another.
func TestBoundCountsSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			noise func(*slog.Logger)
			other func(*slog.Logger)
		}{
			{"level", func(l *slog.Logger) { l.Info("x", slog.String("n", "noise")) }, func(l *slog.Logger) { l.Warn("x", slog.String("n", "other")) }},
			{"message", func(l *slog.Logger) { l.Info("x", slog.String("n", "noise")) }, func(l *slog.Logger) { l.Info("y", slog.String("n", "other")) }},
			{"backend", func(l *slog.Logger) { l.Info("x", slog.String("backend", "a"), slog.String("n", "noise")) }, func(l *slog.Logger) { l.Info("x", slog.String("backend", "b"), slog.String("n", "other")) }},
			{"backend of a logger",
				func(l *slog.Logger) {
					l.With(slog.Int("k", 1), slog.String("backend", "a")).Info("x", slog.String("n", "noise"))
				},
				func(l *slog.Logger) {
					l.With(slog.String("backend", "b")).WithGroup("g").Info("x", slog.String("n", "other"))
				}},
			{"event", func(l *slog.Logger) { l.Info("audit", slog.String("event", "a"), slog.String("n", "noise")) }, func(l *slog.Logger) { l.Info("audit", slog.String("event", "b"), slog.String("n", "other")) }},
		} {
			var b logtest.Log
			bound := Bound(b.Handler())
			log := slog.New(bound)
			for range 1000 {
				tt.noise(log)
			}
			tt.other(log)
			bound.Flush(t.Context())
			if noise, other := b.Count("n=noise"), b.Count("n=other"); noise != recordsPerSecond || other != 1 {
				t.Errorf("%s: %d records of the noise and %d of the other, want %d and 1", tt.name, noise, other, recordsPerSecond)
			}
		}
	})
}

// Other attributes are not distinguished, or a flood would only have to vary them.
func TestBoundIsNotFooledByVariety(t *testing.T) {
	var b logtest.Log
	bound := Bound(b.Handler())
	log := slog.New(bound)
	for i := range 1000 {
		log.With(slog.Int("remote", i)).Info("request refused", slog.Int("host", i))
	}
	bound.out.Wait(t.Context())
	if got := b.Count("request refused"); got > recordsPerSecond+recordsPerSecond/5 {
		t.Errorf("%d records, want about %d", got, recordsPerSecond)
	}
	bound.Flush(t.Context())
}

// The count names the backend.
func TestBoundNamesTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b logtest.Log
		bound := Bound(b.Handler())
		log := slog.New(bound).With(slog.String("backend", "wiki"))
		for range recordsPerSecond + 3 {
			log.Info("backend stderr")
		}
		bound.Flush(t.Context())
		if got := b.Count(`level=INFO msg="log records dropped: too many at once" message="backend stderr" count=3 about=wiki`); got != 1 {
			t.Errorf("%q", b.Lines()[recordsPerSecond:])
		}
		<-time.After(time.Minute)
		if got := b.Count("dropped"); got != 1 {
			t.Errorf("told %d times after it was flushed", got)
		}
	})
}

func TestBoundDropsNoError(t *testing.T) {
	var b logtest.Log
	bound := Bound(b.Handler())
	log := slog.New(bound)
	for range 1000 {
		log.Error("broken")
	}
	bound.Flush(t.Context())
	if got := b.Count("level=ERROR msg=broken"); got != 1000 {
		t.Errorf("%d errors of 1000", got)
	}
}

// Bound does not change records, nor the level.
func TestBoundKeepsRecords(t *testing.T) {
	record := func(wrap func(slog.Handler) slog.Handler) []string {
		var b logtest.Log
		h := slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo, AddSource: true, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		wrapped := wrap(h)
		log := slog.New(wrapped).With(slog.Int("a", 1)).WithGroup("g").With(slog.Int("b", 2))
		log.Debug("not of this level")
		log.Info("it", slog.Any("c", []string{"x"}), slog.Group("h", slog.Int("d", 4)), slog.Any("err", errors.New("no")))
		if bound, ok := wrapped.(*Bounded); ok {
			bound.Flush(t.Context())
		}
		return b.Lines()
	}
	plain := record(func(h slog.Handler) slog.Handler { return h })
	bound := record(func(h slog.Handler) slog.Handler { return Bound(h) })
	if diff := cmp.Diff(bound, plain); diff != "" || len(plain) != 1 || !json.Valid([]byte(plain[0])) {
		t.Errorf("records (-bound +plain):\n%s", diff)
	}
}

// gate is a handler that blocks on demand.
type gate struct {
	slog.Handler
	open chan struct{}
}

func (g *gate) Handle(ctx context.Context, r slog.Record) error {
	<-g.open
	return g.Handler.Handle(ctx, r)
}

// If the log is not read, only the goroutine that writes it blocks. Queued records are written
// when it is read again, and the rest is counted.
func TestBoundOnABlockedPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b logtest.Log
		pipe := &gate{Handler: b.Handler(), open: make(chan struct{})}
		bound := Bound(pipe)
		log := slog.New(bound)
		began := time.Now()
		log.Error("the first") // Error does not block either
		synctest.Wait()
		const over = 7
		for range MaxQueue + over {
			log.Error("later")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		bound.Flush(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v to log and flush, want no more than the flush may", took)
		}
		close(pipe.open)
		bound.Flush(t.Context())
		if first, later := b.Count("the first"), b.Count("msg=later"); first != 1 || later != MaxQueue {
			t.Errorf("%d and %d records, want 1 and %d", first, later, MaxQueue)
		}
		if got := b.Count(fmt.Sprintf(`level=WARN msg="log records dropped: the log is written too slowly" count=%d`, over)); got != 1 {
			t.Errorf("the lost ones are told %d times", got)
		}
	})
}

// A record is written with the values of the time of logging, even if its request has ended.
func TestBoundKeepsWhatTheContextCarries(t *testing.T) {
	type key struct{}
	var got any
	var ended error
	h := handlerFunc(func(ctx context.Context, _ slog.Record) error {
		got, ended = ctx.Value(key{}), ctx.Err()
		return nil
	})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
	cancel()
	bound := Bound(h)
	slog.New(bound).InfoContext(ctx, "x")
	bound.Flush(t.Context())
	if got != "trace" || ended != nil {
		t.Errorf("the handler sees %v, %v; want the value and no end", got, ended)
	}
}

// handlerFunc is a handler without attributes.
type handlerFunc func(context.Context, slog.Record) error

func (handlerFunc) Enabled(context.Context, slog.Level) bool          { return true }
func (f handlerFunc) Handle(ctx context.Context, r slog.Record) error { return f(ctx, r) }
func (f handlerFunc) WithAttrs([]slog.Attr) slog.Handler              { return f }
func (f handlerFunc) WithGroup(string) slog.Handler                   { return f }
