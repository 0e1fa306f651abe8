// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// A Handler is a [slog.Handler] that removes secrets from the attributes of records,
// including errors and other values, before it calls another handler. It does not
// change attributes set with WithAttrs, which come from the program, nor the attribute
// backend. Its methods may be called concurrently.
type Handler struct {
	inner    slog.Handler
	redactor func() *Redactor
}

// Around returns a Handler that calls h. by is called for each record and must not
// block.
func Around(h slog.Handler, by func() *Redactor) *Handler { return &Handler{h, by} }

// Enabled calls the inner handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// WithAttrs returns a handler with the attributes.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.inner.WithAttrs(attrs), h.redactor}
}

// WithGroup returns a handler with the group.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.inner.WithGroup(name), h.redactor}
}

// Handle removes the secrets and calls the inner handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	by := h.redactor()
	if by == nil || r.NumAttrs() == 0 { // messages are constants of the program
		return h.inner.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(by.attr(a))
		return true
	})
	return h.inner.Handle(ctx, clean)
}

func (r *Redactor) attr(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindGroup:
		var clean []slog.Attr
		for _, member := range a.Value.Group() {
			clean = append(clean, r.attr(member))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(clean...)}
	case slog.KindString, slog.KindAny:
		text := fmt.Sprint(a.Value.Any())
		if clean := r.Text(text); a.Key != "backend" && clean != text {
			return slog.String(a.Key, clean)
		}
	default: // numbers and times are the program's own
	}
	return a
}
