// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// Each request is checked against its headers, the retry like the first. A retry with wrong
// headers costs nothing: a correct one still resumes the call.
func TestParkHeadersOfTheRetry(t *testing.T) {
	first := headers{"Mcp-Param-Region": "eu"}
	for _, tt := range []struct {
		name  string
		retry headers
		code  int64
	}{
		{"the same", headers{"Mcp-Param-Region": "eu"}, 0},
		{"the same in another way", headers{"Mcp-Param-Region": "=?base64?ZXU=?="}, 0},
		{"one more, which mirrors nothing", headers{"Mcp-Param-Region": "eu", "Mcp-Param-Else": "x"}, 0},
		{"another value", headers{"Mcp-Param-Region": "us"}, mcp.CodeHeaderMismatch},
		{"none", nil, mcp.CodeHeaderMismatch},
		{"one that is malformed", headers{"Mcp-Param-Region": "=?base64?!?="}, mcp.CodeHeaderMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d parkTool
			bubble(t, d.handler(func(ctx context.Context, c mcp.Caller) (string, error) {
				return "asked", askRoots(ctx, c)
			}), server.Config{}, func(s *site) {
				asked := s.tool("", first)
				again := retryParams(asked, `"q1":`+roots)
				if tt.code != 0 {
					got := s.do(s.toolRequest(s.ctx(), again, tt.retry))
					if r := readRound(t, got.body); got.status != http.StatusBadRequest || r.Error == nil || r.Error.Code != tt.code {
						t.Errorf("the retry: %d %s", got.status, got.body)
					}
					tt.retry = first
				}
				r := s.tool(again, tt.retry)
				if r.Result.Text != "asked" {
					t.Errorf("the retry with the right headers: %+v", r)
				}
				d.wantEnds(t, "")
			})
		})
	}
}
