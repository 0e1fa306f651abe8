// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A response that does not fit into net/http's buffer is sent in one write. Sockets that keep
// message boundaries show this: each read returns one write.
func TestLargerResponseIsOneWrite(t *testing.T) {
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
	// While it serves a request, net/http reads a byte ahead, and such a socket discards the
	// rest of the write: each connection has one request.
	for range 3 {
		head, body, _ := strings.Cut(firstWrite(t, path), "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || body != strings.Repeat("x", length) {
			t.Errorf("the first write has %d bytes of the answer's %d", len(body), length)
		}
	}
}

// firstWrite returns the first write of a server's response.
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
