// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// An answer that does not fit into net/http's buffer is one write. Sockets that keep
// the bounds of what was written show it: each read returns one.
func TestLargerAnswerIsOneWrite(t *testing.T) {
	const length = 10 << 10
	path := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unixpacket", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		announced(w, length)
		_, _ = w.Write([]byte(strings.Repeat("x", length)))
	})}
	done := make(chan struct{})
	go func() { // ends with the server
		defer close(done)
		_ = s.Serve(responseListener{Listener: l})
	}()
	defer func() {
		s.Close()
		<-done
	}()
	// While it serves a request, net/http reads a byte ahead, and of such a socket the rest
	// of what was sent in one write would be lost: each connection has one request.
	for range 3 {
		head, body, _ := strings.Cut(firstWrite(t, path), "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || body != strings.Repeat("x", length) {
			t.Errorf("the first write has %d bytes of the answer's %d", len(body), length)
		}
	}
}

// firstWrite returns what a server answers with in its first write.
func firstWrite(t *testing.T, path string) string {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "unixpacket", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64<<10)
	n, err := c.Read(got)
	if err != nil {
		t.Fatal(err)
	}
	return string(got[:n])
}
