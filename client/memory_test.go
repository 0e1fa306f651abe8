// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// noMemory is a Memory without room. It counts the requests for it.
type noMemory struct{ asked atomic.Int64 }

func (m *noMemory) Reserve(context.Context, int) error {
	m.asked.Add(1)
	return &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.Completed, Message: "no room for the answer"}
}

// largeText is longer than what is held without a reservation.
var largeText = strings.Repeat("x", 256<<10)

// idLast answers requests over lines, as servers do that send the id last.
func idLast(conn io.ReadWriteCloser) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
			"tools/call": `{"content":[]}`,
		}[m.Method]
		if m.Params.Name == "large" {
			result = `{"content":[{"type":"text","text":"` + largeText + `"}]}`
		}
		if result == "" {
			result = "{}"
		}
		fmt.Fprintf(conn, "{\"result\":%s,\"jsonrpc\":\"2.0\",\"id\":%s}\n", result, m.ID)
	}
}

// A response for which there is no memory ends its call, with the outcome it has, and
// does not affect the connection and other calls.
func TestResponseWithoutMemory(t *testing.T) {
	call := func(t *testing.T, c *client.Client, tool string, m mcp.Memory) error {
		t.Helper()
		req := in(mcp.NewScope("s", nil), request(t, "tools/call", `{"name":"`+tool+`"}`))
		req.Memory = m
		_, err := c.Serve(t.Context(), req, new(recorder))
		return err
	}
	check := func(t *testing.T, c *client.Client) {
		t.Helper()
		m := new(noMemory)
		err := call(t, c, "large", m)
		if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Code != mcp.CodeLimit || f.Outcome != mcp.Completed {
			t.Errorf("got %v", err)
		}
		if m.asked.Load() == 0 {
			t.Error("nobody asked for room")
		}
		if err := call(t, c, "small", m); err != nil {
			t.Errorf("a small answer: %v", err)
		}
		if err := call(t, c, "large", nil); err != nil {
			t.Errorf("an answer without a bound: %v", err)
		}
	}
	t.Run("pipe, id last", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
				near, far := memnet.Pipe(64 << 10)
				go idLast(far) // ends when the client closes
				return near, nil
			}, client.Config{Version: mcp.V20251125})
			defer c.Close()
			check(t, c)
		})
	})
	for _, kind := range []string{"text/event-stream", "application/json"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := dialHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var m struct {
						ID     json.RawMessage `json:"id"`
						Method string          `json:"method"`
						Params struct {
							Name string `json:"name"`
						} `json:"params"`
					}
					if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == nil {
						w.WriteHeader(http.StatusAccepted)
						return
					}
					result := `{"content":[]}`
					switch {
					case m.Method == "initialize":
						result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
					case m.Params.Name == "large":
						result = `{"content":[{"type":"text","text":"` + largeText + `"}]}`
					}
					w.Header().Set("Content-Type", kind)
					body := fmt.Sprintf(`{"result":%s,"jsonrpc":"2.0","id":%s}`, result, m.ID)
					if kind == "text/event-stream" {
						body = "id: 1\ndata: " + body + "\n\n"
					}
					_, _ = io.WriteString(w, body)
				}), client.Config{Version: mcp.V20251125})
				check(t, c)
			})
		})
	}
}
