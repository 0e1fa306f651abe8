// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const frameWindow = 8 // WINDOW_UPDATE

// large has a tool that returns a MiB, and the tools of waiting.
func large() mcp.Handler {
	inner := waiting(new(atomic.Int64))
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if name, _ := req.Params.Text(mcp.FieldName); req.Method == "tools/call" && name == "wait" {
			return mcp.NewResult([]byte(`{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat(".", 1<<20) + `"}]}`))
		}
		return inner.Serve(ctx, req, c)
	})
}

// drink calls the tool and reads perSecond bytes of the connection each second, until it ends
// or enough bytes have been read. It returns the number of bytes read.
func (s *site) drink(perSecond, enough int) int {
	s.t.Helper()
	s.net.Buffer = 1 << 10
	c := s.dial(false)
	defer c.Close()
	c.frame(frameSettings, 0, 0, []byte{
		0, 4, 0x3f, 0, 0, 0, // the window of a stream
		0, 5, 0, 0x10, 0, 0, // frames of a MiB
	})
	c.frame(frameWindow, 0, 0, []byte{0x3f, 0, 0, 0}) // the window of the connection
	c.headers(1, 0, http.MethodPost, "/mcp", commandtest.CallHeader("wait"))
	c.frame(frameData, flagEnd, 1, []byte(commandtest.CallOf("wait")))
	c.headers(3, 0, http.MethodPost, "/mcp", commandtest.CallHeader("wait"))
	c.frame(frameData, flagEnd, 3, []byte(commandtest.CallOf("wait")))
	got, buf := 0, make([]byte, perSecond)
	for got < enough {
		pass(time.Second)
		n, err := io.ReadFull(c, buf)
		got += n
		if err != nil {
			break
		}
	}
	return got
}

// FAULTS 26: a client that reads a byte now and then is disconnected, as with HTTP/1.1, with
// all its streams; and does not delay the shutdown.
func TestTrickleOverHTTP2(t *testing.T) {
	t.Parallel()
	onMemory(t, large(), func(s *site) {
		start := time.Now()
		// The network's buffer can still be read after that, a byte per second.
		if got := s.drink(1, 1<<20); got > 4<<10 {
			t.Errorf("it has taken %d bytes, one at a time", got)
		}
		if took := time.Since(start); took > time.Hour {
			t.Errorf("it was given up after %v", took)
		}
	})
	onMemory(t, large(), func(s *site) {
		go s.drink(1, 1<<20) // ends when the connection is closed
		pass(time.Second)
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_ = s.gw.Shutdown(ctx)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("Shutdown took %v", took)
		}
		pass(time.Hour)
	})
}

// A slow client is not disconnected: one that reads what two responses need, and not much
// more, is served.
func TestSlowLineOverHTTP2(t *testing.T) {
	t.Parallel()
	onMemory(t, large(), func(s *site) {
		if got := s.drink(8<<10, 2<<20); got < 2<<20 {
			t.Errorf("it has got %d bytes of two answers", got)
		}
	})
}
