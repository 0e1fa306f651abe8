// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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

// A client that disconnects while its question is being written has cancelled the request.
func TestQuestionClientDisconnects(t *testing.T) {
	d := new(parkTool)
	bubble(t, d.askOnce(), server.Config{}, func(s *site) {
		ctx, cancel := context.WithCancel(s.ctx())
		failed := make(chan error, 1)
		req := s.toolRequest(ctx, "")
		go func() { // ends with cancel
			res, err := s.client.Do(req)
			if err == nil {
				res.Body.Close()
			}
			failed <- err
		}()
		synctest.Wait() // asked but not sent: the window for more questions is open
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the client got %v", err)
		}
		s.advance(time.Second)
		d.wantEnds(t, "closed the connection")
		s.wantParked(0)
	})
}

// breaking is a ResponseWriter of a connection that breaks when that text is written.
type breaking struct {
	header http.Header
	text   string
}

func (b *breaking) Header() http.Header { return b.header }

func (b *breaking) WriteHeader(int) {}

func (b *breaking) Flush() {}

func (b *breaking) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(b.text)) {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

// If the response with a question breaks while it is written, no client has the question:
// its request ends at once, and not only when it would expire.
func TestQuestionResponseBreaks(t *testing.T) {
	d := new(parkTool)
	h := d.handler(func(ctx context.Context, c mcp.Caller) (string, error) {
		if d.runs.Load() > 1 { // the second is answered on a stream
			if err := c.Notify(ctx, note(t, "notifications/progress", `{"progressToken":"p","progress":1}`)); err != nil {
				return "", err
			}
		}
		return "done", askRoots(ctx, c)
	})
	bubble(t, h, server.Config{}, func(s *site) {
		for _, progress := range []string{"", `"progressToken":"p",`} {
			func() {
				defer func() {
					if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // what was panicked with
						t.Errorf("the response ends with %v, want it broken off", v)
					}
				}()
				req := s.toolRequest(s.ctx(), "")
				body := strings.Replace(askableCall("1", `"name":"t"`), `"_meta":{`, `"_meta":{`+progress, 1)
				req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
				s.server.ServeHTTP(&breaking{header: make(http.Header), text: "input_required"}, req)
			}()
			s.advance(time.Second)
			s.wantParked(0)
		}
		d.wantEnds(t, "closed the connection", "closed the connection")
	})
}
