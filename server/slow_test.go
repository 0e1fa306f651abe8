// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// A client on a slow line has not stopped reading: it receives a large answer, however long
// that takes. A modern client could not reconnect for the rest (I37).
func TestSlowReaderGetsALargeAnswer(t *testing.T) {
	const size = 150 << 10
	h := tools(map[string]mcp.HandlerFunc{"t": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat(".", size) + `"}]}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		s.net.Buffer = 512
		res, err := s.client.Do(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"t"`), modernHeaders("tools/call", "t")))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, piece, began := 0, make([]byte, 1000), time.Now()
		for err == nil {
			var n int
			n, err = res.Body.Read(piece)
			got += n
			sleep(200 * time.Millisecond)
		}
		if !errors.Is(err, io.EOF) || got < size {
			t.Errorf("got %d bytes and %v, want all of them", got, err)
		}
		if took := time.Since(began); took < 2*server.DefaultWriteTimeout {
			t.Errorf("it took %v, which is not slow", took)
		}
	})
}
