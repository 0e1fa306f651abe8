// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// untaken is a log whose reader has stopped to read until it is opened.
type untaken struct {
	slog.Handler

	open chan struct{}
}

func (untaken) Enabled(context.Context, slog.Level) bool { return true }

func (u untaken) Handle(context.Context, slog.Record) error {
	<-u.open
	return nil
}

// A log that nobody takes holds up nothing: not the lists, whose problems are told
// of before they are given out, and not the end.
func TestLogThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := untaken{slog.DiscardHandler, make(chan struct{})}
		defer close(log.open)
		none := ""
		g, err := New(Config{}, Options{Logger: slog.New(log), InProcess: []InProcess{
			{Name: "a", Prefix: &none, Handler: demo.New()}, {Name: "b", Prefix: &none, Handler: demo.New()},
		}})
		if err != nil {
			t.Fatal(err)
		}
		list, err := mcp.NewRequest("tools/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := g.Serve(ctx, list, noCaller{}); err != nil {
			t.Errorf("tools/list: %v", err)
		}
		if len(g.Status().Problems) == 0 {
			t.Error("there is nothing to log")
		}
		began := time.Now()
		if err := g.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > flushTimeout {
			t.Errorf("to end took %v, want what its last words may take", took)
		}
	})
}
