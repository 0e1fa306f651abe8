// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// post serves one POST as net/http would, and returns the response, which is complete
// when done is closed.
func post(s *Server, body string, header map[string]string) (answer *httptest.ResponseRecorder, done <-chan struct{}) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	answer, ended := httptest.NewRecorder(), make(chan struct{})
	go func() { // ends with the response
		defer close(ended)
		s.ServeHTTP(answer, r)
	}()
	return answer, ended
}

// earlyCalls are the two ways to call a Handler: the messages before the call, and the
// call.
var earlyCalls = []struct {
	name    string
	version mcp.Version
	encoder encoder
	before  []string
	call    string
	header  map[string]string
}{
	{
		"modern", mcp.V20260728, modernEncoder{}, nil,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"large","_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		map[string]string{versionHeader: "2026-07-28", methodHeader: "tools/call", nameHeader: "large"},
	},
	{
		"legacy", mcp.V20251125, legacyEncoder{},
		[]string{
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		},
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"large"}}`,
		map[string]string{},
	},
}

// A result offered at the earliest possible time, by the first act of a Handler, finds a
// consumer: the response is attached to the exchange before the request is passed to a
// worker, which the test holds back.
func TestEarliestResultIsAccepted(t *testing.T) {
	text := `"content":[{"type":"text","text":"` + strings.Repeat("abcdefgh", 8<<10) + `"}]}}`
	for _, tt := range earlyCalls {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outcome := make(chan *mcp.Result, 1)
				s := New(mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
					if req.Method == "tools/call" {
						return <-outcome, nil
					}
					return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{}}`))
				}), Config{PassArriving: true})
				defer s.Close()
				held := make(chan struct{})
				s.workers.run = func(ctx context.Context, ir *inflightRequest) {
					if ir.req.Method == "tools/call" {
						<-held
					}
					s.run(ctx, ir)
				}
				header := maps.Clone(tt.header)
				for _, body := range tt.before {
					rec, done := post(s, body, header)
					<-done
					if id := rec.Header().Get(sessionHeader); id != "" {
						header[sessionHeader] = id
					}
				}
				rec, done := post(s, tt.call, header)
				synctest.Wait() // until it is passed to the worker
				calls := s.inflight.list(kindCall)
				if len(calls) != 1 {
					t.Fatalf("%d calls are in flight, want one", len(calls))
				}
				x, ir := calls[0].exchange(), &inflightRequest{
					req:     &mcp.Request{Method: "tools/call", Client: &mcp.Peer{Version: tt.version}},
					encoder: tt.encoder,
				}
				caller := newRequestCaller(s, ir, x, ir.req, &ir.progressTimer)
				go func() { // ends when the result was refused, or is written
					a := arrived(t, `{"jsonrpc":"2.0","id":31,"result":{"resultType":"complete",`+text)
					if taken, err := caller.Receive(t.Context(), a); !taken || err != nil {
						t.Errorf("Receive = %v, %v", taken, err)
					}
					outcome <- a.Result()
				}()
				synctest.Wait() // until it is refused, or waits to be written
				close(held)
				<-done
				if got := rec.Body.String(); rec.Code != http.StatusOK || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":5,"result":{`) || !strings.HasSuffix(got, text) {
					t.Errorf("%d %.100s", rec.Code, got)
				}
			})
		})
	}
}

// arrived returns an arriving result with all its bytes available.
func arrived(t *testing.T, answer string) *jsonrpc.Arriving {
	a := jsonrpc.NewArrival(strings.NewReader(answer), -1, mcp.Limits{}, 1<<30)
	if whole, err := a.Begin(); err != nil || whole != nil {
		t.Errorf("there is no window of the answer: %v", err)
	}
	return jsonrpc.NewArriving(&a, mcp.V20260728, func() {})
}
