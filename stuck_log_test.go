// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// blockedHandler is a log handler that blocks until the channel is closed.
type blockedHandler struct {
	slog.Handler

	open chan struct{}
}

func (blockedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (u blockedHandler) Handle(context.Context, slog.Record) error {
	<-u.open
	return nil
}

// A blocked log delays neither the lists, although their problems are logged before
// they are returned, nor the shutdown.
func TestBlockedLogBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := blockedHandler{slog.DiscardHandler, make(chan struct{})}
		defer close(log.open)
		none := ""
		g, err := New(config.Config{}, Options{Logger: slog.New(log), InProcess: []InProcess{
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
