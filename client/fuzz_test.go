// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// FuzzServerLines makes a server send arbitrary bytes: a call ends with a result or an
// error, and nothing is left.
func FuzzServerLines(f *testing.F) {
	for _, seed := range []string{
		"", "\n\n", "banner\n", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":2,"result":{}}` + "\r\n" + `{"jsonrpc":"2.0","id":"1","result":{}}` + "\n",
		`[{"jsonrpc":"2.0","id":1,"result":{}}]` + "\n", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}` + "\n" + `{"jsonrpc":"2.0","id":9,"method":"ping"}` + "\n",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, out string, modern bool) {
		inBubble(t, func(t *testing.T) {
			cfg := client.Config{Name: "b", Version: mcp.V20251125, MaxMessage: 1 << 12}
			if modern {
				cfg.Version = mcp.V20260728
			}
			c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
				a, b := memnet.Pipe(1 << 20)
				if _, err := b.Write([]byte(out)); err != nil {
					return nil, err
				}
				return a, b.CloseWrite()
			}, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			res, err := c.Serve(ctx, echo(t), &recorder{answer: respondWith("{}")})
			if (res == nil) == (err == nil) || ctx.Err() != nil {
				t.Errorf("ended with %v, %v (%v)", res, err, ctx.Err())
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// FuzzServerBody makes a server answer a POST with an arbitrary body.
func FuzzServerBody(f *testing.F) {
	for _, body := range []string{
		"", "{}", "[]", `{"jsonrpc":"2.0","id":1,"result":{}}`, "data: {}\n\n", "data: " + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n",
		"id: 1\nretry: 1\ndata:\n\n", "event: ping\ndata: x\n\n", ": c\n\ndata: [1]\r\r",
	} {
		f.Add(200, "application/json", body, true)
		f.Add(200, "text/event-stream; charset=utf-8", body, true)
		f.Add(404, "application/json", body, true)
		f.Add(200, "text/event-stream", body, false)
	}
	f.Fuzz(func(t *testing.T, status int, kind, body string, modern bool) {
		inBubble(t, func(t *testing.T) {
			cfg := client.Config{Name: "b", Version: mcp.V20251125, MaxMessage: 1 << 12}
			if modern {
				cfg.Version = mcp.V20260728
			}
			cfg.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPost {
					return &http.Response{StatusCode: 405, Body: http.NoBody, Header: http.Header{}}, nil
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					return nil, err
				}
				return &http.Response{
					StatusCode: status, Header: http.Header{"Content-Type": {kind}, "Mcp-Session-Id": {"x"}},
					Body: io.NopCloser(strings.NewReader(body)),
				}, nil
			})
			c := client.NewHTTP("http://b.test/", cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			res, err := c.Serve(ctx, echo(t), &recorder{})
			if (res == nil) == (err == nil) || ctx.Err() != nil {
				t.Errorf("ended with %v, %v (%v)", res, err, ctx.Err())
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// FuzzParamHeaders uses arbitrary tool lists and calls: only valid header values are
// sent.
func FuzzParamHeaders(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}`), []byte(`{"a":"x\ny"}`))
	f.Add([]byte(`{"properties":{"a":{"type":"integer","x-mcp-header":"A b"}}}`), []byte(`{"a":1e400}`))
	f.Add([]byte(`{"properties":{"a":{"properties":{"b":{"type":"boolean","x-mcp-header":"B"}}}}}`), []byte(`{"a":{"b":true}}`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		inBubble(t, func(t *testing.T) {
			params := append(append([]byte(`{"name":"q","arguments":`), arguments...), '}')
			call, err := mcp.NewRequest("tools/call", params)
			if err != nil {
				return // no request can have these arguments
			}
			var got http.Header
			c := client.NewHTTP("http://b.test/", client.Config{Name: "b", Version: mcp.V20260728, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				body := new(bytes.Buffer)
				if _, err := io.Copy(body, r.Body); err != nil {
					return nil, err
				}
				m, err := mcp.Parse(body.Bytes(), mcp.Limits{})
				if err != nil {
					t.Fatalf("sent %s: %v", body, err)
				}
				got = r.Header
				result := []byte(`{"tools":[{"name":"q","inputSchema":` + string(schema) + `}]}`)
				return &http.Response{
					StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(bytes.NewReader(jsonrpc.AppendResult(nil, m.ID, result))),
				}, nil
			})})
			for _, req := range []*mcp.Request{request(t, "tools/list", ""), call} {
				if _, err := c.Serve(t.Context(), req, &recorder{}); err != nil && got == nil {
					t.Fatal(err)
				}
			}
			for k, vs := range got {
				for _, v := range vs {
					if strings.IndexFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f }) >= 0 || strings.TrimSpace(v) != v {
						t.Errorf("header %s: %q", k, v)
					}
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}
