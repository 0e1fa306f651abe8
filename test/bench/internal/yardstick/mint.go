// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package yardstick

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// Mint is a bare handler that opens and ends sessions: it reads the request, creates an id,
// and responds with prepared bytes. It does not store sessions.
func Mint() http.Handler {
	const result = `{"jsonrpc":"2.0","id":1000000000,"result":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"mint","version":"1"}}}`
	pool := &sync.Pool{New: func() any { return new(bytes.Buffer) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // 200, the response to a DELETE
		}
		buf := pool.Get().(*bytes.Buffer)
		defer pool.Put(buf)
		buf.Reset()
		if _, err := buf.ReadFrom(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if !bytes.Contains(buf.Bytes(), []byte(`"method":"initialize"`)) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(result)))
		h.Set("Mcp-Session-Id", rand.Text())
		_, _ = io.WriteString(w, result) // fails only if the client has disconnected
	})
}
