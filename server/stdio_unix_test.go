// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server_test

import (
	"bufio"
	"io"
	"os"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// A client that has closed its output may miss what ends with its session. A client
// that is gone does not.
func TestStdioScopeIsAbandoned(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"ends": false, "is killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var abandoned []bool
			h := mcp.HandlerFunc(func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				req.Scope.OnEnd(func() { abandoned = append(abandoned, req.Scope.IsAbandoned()) })
				return result(discovered)
			})
			in, client := osPipe(t)
			fromServer, out := osPipe(t)
			s := server.New(h, server.Config{})
			done := make(chan error, 1)
			go func() { done <- s.ServeStdio(t.Context(), in, out) }() // ends with the pipe
			if _, err := io.WriteString(client, initialize+"\n"); err != nil {
				t.Fatal(err)
			}
			if lines := bufio.NewScanner(fromServer); !lines.Scan() {
				t.Fatal(lines.Err())
			}
			if gone {
				fromServer.Close() // first, because the end of the input is what the server notices
			}
			client.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if len(abandoned) != 1 || abandoned[0] != gone {
				t.Errorf("abandoned: %v, want %t once", abandoned, gone)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func osPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}
