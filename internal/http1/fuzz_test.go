// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/http1"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// canned is a connection to a peer that responds to any request with the same pieces, and
// then ends.
type canned struct {
	*memnet.Conn // for the methods that are not used
	pieces       [][]byte

	asked chan struct{} // closed with the request, before which nothing can be read
	once  sync.Once
	gone  chan struct{} // closed with the connection
	left  sync.Once
}

func newCanned(pieces [][]byte) *canned {
	c, _ := memnet.Pipe(1)
	return &canned{Conn: c, pieces: slices.Clone(pieces), asked: make(chan struct{}), gone: make(chan struct{})}
}

// Read returns at most the rest of a piece.
func (c *canned) Read(p []byte) (int, error) {
	select {
	case <-c.asked:
	case <-c.gone:
		return 0, net.ErrClosed
	}
	for len(c.pieces) > 0 && len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	c.pieces[0] = c.pieces[0][n:]
	return n, nil
}

// Write accepts everything.
func (c *canned) Write(p []byte) (int, error) {
	c.once.Do(func() { close(c.asked) })
	return len(p), nil
}

// TryWrite accepts everything.
func (c *canned) TryWrite(p []byte) (int, error) { return c.Write(p) }

// Close closes the connection.
func (c *canned) Close() error {
	c.left.Do(func() { close(c.gone) })
	return nil
}

// FuzzAnswer compares the outcome of a response with that of net/http, however it is split.
func FuzzAnswer(f *testing.F) {
	for i, tt := range answerCases() {
		var all string
		for _, s := range tt.says {
			all += s
		}
		f.Add([]byte(all[:min(len(all), 2*fuzzHead)]), uint16(i), uint16(7*i), tt.method == http.MethodHead)
	}
	f.Fuzz(func(t *testing.T, answer []byte, a, b uint16, noBody bool) {
		a, b = min(a, b), max(a, b)
		i, j := min(int(a), len(answer)), min(int(b), len(answer))
		dial := func(context.Context, string, string) (net.Conn, error) {
			return newCanned([][]byte{answer[:i], answer[i:j], answer[j:]}), nil
		}
		ours := &http1.Transport{Dial: dial, WriteTimeout: time.Minute, MaxHeaderBytes: fuzzHead}
		std := &http.Transport{DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: fuzzHead, DisableKeepAlives: true}
		got, want := fuzzOutcome(t, ours, noBody), fuzzOutcome(t, std, noBody)
		if got.Status != "" && got.Status[:3] == "101" {
			got.Body, want.Body = "", "" // as in answerCases
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("(-http1 +net/http):\n%s", diff)
		}
	})
}

// fuzzHead is the limit of headers here: short, so that it is reached in more places.
const fuzzHead = 200

func fuzzOutcome(t *testing.T, by http.RoundTripper, noBody bool) outcome {
	t.Helper()
	method := http.MethodGet
	if noBody {
		method = http.MethodHead
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return outcomeOf(by.RoundTrip(req))
}
