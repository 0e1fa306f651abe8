// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// wireLine is one connection to an http.Server on loopback. It repeats the same request
// without allocating: what is allocated meanwhile is allocated by the server.
type wireLine struct {
	tb   testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// dialServer serves h on loopback until the test ends.
func dialServer(tb testing.TB, h http.Handler) *wireLine {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	hs := &http.Server{Handler: h}
	var served sync.WaitGroup
	served.Go(func() { _ = hs.Serve(ln) }) // ends with Close; waited for below
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		conn.Close()
		hs.Close()
		served.Wait()
	})
	return &wireLine{tb: tb, conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
}

// wireRequest returns the bytes of a POST.
func wireRequest(body string, hs headers) []byte {
	var b strings.Builder
	b.WriteString("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n")
	for k, v := range hs {
		fmt.Fprintf(&b, "%s: %s\r\n", k, v)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return []byte(b.String())
}

// roundTrip sends the request and reads the answer, which must have a Content-Length.
func (l *wireLine) roundTrip(request []byte) {
	if _, err := l.conn.Write(request); err != nil {
		l.tb.Fatal(err)
	}
	length := -1
	for {
		text, err := l.in.ReadSlice('\n')
		if err != nil {
			l.tb.Fatal(err)
		}
		if len(text) <= 2 {
			break
		}
		const key = "Content-Length: "
		if len(text) > len(key) && string(text[:len(key)]) == key {
			length, _ = strconv.Atoi(string(text[len(key) : len(text)-2]))
		}
	}
	if length <= 0 {
		l.tb.Fatal("the answer does not say how long it is")
	}
	if _, err := l.in.Discard(length); err != nil {
		l.tb.Fatal(err)
	}
}

// fixedHandler is an http.Handler with a fixed answer, for comparison.
func fixedHandler() http.Handler {
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	})
}

// instantServer is a Server with a Handler that answers at once.
func instantServer(tb testing.TB) *server.Server {
	tb.Helper()
	res, err := result(`{"content":[]}`)
	if err != nil {
		tb.Fatal(err)
	}
	found, err := result(discovered)
	if err != nil {
		tb.Fatal(err)
	}
	s := server.New(mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Method == "server/discover" {
			return found, nil
		}
		return res, nil
	}), server.Config{})
	tb.Cleanup(func() { s.Close() })
	return s
}

// session opens a session and returns the headers of its requests.
func (l *wireLine) session() headers {
	l.tb.Helper()
	if _, err := l.conn.Write(wireRequest(initialize, nil)); err != nil {
		l.tb.Fatal(err)
	}
	head, err := textproto.NewReader(l.in).ReadLine()
	if err != nil || !strings.Contains(head, "200") {
		l.tb.Fatal(head, err)
	}
	h, err := textproto.NewReader(l.in).ReadMIMEHeader()
	if err != nil {
		l.tb.Fatal(err)
	}
	length, _ := strconv.Atoi(h.Get("Content-Length"))
	if _, err := l.in.Discard(length); err != nil {
		l.tb.Fatal(err)
	}
	return headers{"Mcp-Session-Id": h.Get("Mcp-Session-Id")}
}

var edgeRequests = []struct {
	name string
	make func(*wireLine) []byte
}{
	{"legacy", func(l *wireLine) []byte { return wireRequest(raw("1", "tools/call", `{"name":"echo"}`), l.session()) }},
	{"modern", func(*wireLine) []byte {
		return wireRequest(modern("1", "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"))
	}},
}

func BenchmarkRequest(b *testing.B) {
	for _, tt := range edgeRequests {
		edge := dialServer(b, instantServer(b))
		request := tt.make(edge)
		for name, l := range map[string]*wireLine{"bare": dialServer(b, fixedHandler()), "edge": edge} {
			b.Run(tt.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					l.roundTrip(request)
				}
			})
		}
	}
}

// A request allocates little more than net/http does: the request with its exchange and
// three for its context, the response with its consumer, timer and header, and the answer.
func TestRequestAllocatesLittle(t *testing.T) {
	const most = 12
	for _, tt := range edgeRequests {
		edge := dialServer(t, instantServer(t))
		request := tt.make(edge)
		allocs := func(l *wireLine) float64 { return testing.AllocsPerRun(500, func() { l.roundTrip(request) }) }
		if got, of := allocs(edge), allocs(dialServer(t, fixedHandler())); got > of+most {
			t.Errorf("%s: %v allocations, and net/http has %v of them; want at most %d more", tt.name, got, of, most)
		}
	}
}
