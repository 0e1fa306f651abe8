// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// slowReader is a client that takes each piece of an arriving result slowly.
type slowReader struct {
	slowCaller
	mcp.NoExtension
	every time.Duration
}

func (c slowReader) Extension() mcp.CallerExtension { return c }

func (c slowReader) Receive(_ context.Context, res mcp.StreamedResult) (bool, error) {
	return true, res.(*jsonrpc.Arriving).Flow(c)
}

func (c slowReader) Write(p []byte) (int, error) {
	time.Sleep(c.every)
	return len(p), nil
}

// Each piece of an arriving result resets the idle time, and only the time of the
// server counts: a client that is slow to take a piece uses up none of it.
func TestDeadlineOfAResultThatArrives(t *testing.T) {
	const pieces = 8
	tests := []struct {
		name   string
		server time.Duration // before each piece
		client time.Duration // over each
		want   string        // "" means that it arrives
	}{
		{"a slow server", 9 * time.Second, 0, ""},
		{"a slow client", 0, 15 * time.Minute, ""},
		{"a server that stalls", 11 * time.Second, 0, "no response or progress for 10s (limits.callIdle)"},
		{"a server that takes for ever", 9900 * time.Millisecond, 0, "no response within 1m15s (limits.callMax)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := mcp.HandlerFunc(func(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
					return receive(ctx, c, pieces, tt.server)
				})
				b := New(Config{Name: "shelf", Handler: h, Idle: 10 * time.Second, Max: 75 * time.Second})
				res, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowReader{every: tt.client})
				if tt.want == "" {
					if err != nil || !res.Delivered {
						t.Errorf("the result did not arrive: %v", err)
					}
					return
				}
				if f, ok := errors.AsType[*mcp.Fault](err); !ok || !strings.Contains(f.Message, tt.want) || f.Outcome != mcp.Unknown {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// receive passes the caller a result in so many pieces.
func receive(ctx context.Context, c mcp.Caller, pieces int, every time.Duration) (*mcp.Result, error) {
	body, w := io.Pipe()
	filler := strings.Repeat("x", 64<<10)
	var says sync.WaitGroup
	defer says.Wait()
	defer body.Close()
	says.Go(func() { // ends with the result, or when the pipe is closed; waited for here
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":["`+filler)
		for range pieces {
			time.Sleep(every)
			if _, err := io.WriteString(w, filler); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"]}}`)
		w.Close()
	})
	stop := context.AfterFunc(ctx, func() { body.CloseWithError(ctx.Err()) })
	defer stop()
	a := jsonrpc.NewArrival(body, -1, mcp.Limits{}, 1<<30)
	if whole, err := a.Begin(); whole != nil || err != nil {
		return nil, errors.Join(errors.New("there is no window"), err)
	}
	arriving := jsonrpc.NewArriving(a, mcp.V20251125, func() { body.Close() })
	if taken, err := c.Extension().Receive(ctx, arriving); !taken || err != nil {
		return nil, errors.Join(errors.New("it was not taken"), err)
	}
	return arriving.Result(), nil
}
