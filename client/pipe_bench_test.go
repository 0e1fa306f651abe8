// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ends are both directions of a connection over pipes of the operating system.
type ends struct {
	io.ReadCloser
	io.Writer
	in io.Closer
}

func (e ends) Close() error {
	_ = e.in.Close()
	return e.ReadCloser.Close()
}

// osPipes returns both ends of a connection.
func osPipes(tb testing.TB) (ours, theirs ends) {
	tb.Helper()
	r1, w1, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	return ends{r1, w2, w2}, ends{r2, w1, w1}
}

// answerAll is a server of both eras with one response for everything.
func answerAll(conn ends) {
	defer conn.Close()
	lines, out := frame.NewLineReader(conn, 1<<20), []byte(nil)
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := mcp.Parse(line, mcp.Limits{})
		if err != nil || m.Kind != mcp.KindRequest {
			continue
		}
		out = append(out[:0], `{"jsonrpc":"2.0","id":`...)
		out = append(m.ID.AppendTo(out), `,"result":{"content":[],"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`...)
		if _, err := conn.Write(append(out, '\n')); err != nil {
			return
		}
	}
}

// BenchmarkPipe measures calls over the pipes of the operating system, alone and eight
// at a time, beside the same lines without a client.
func BenchmarkPipe(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		ours, theirs := osPipes(b)
		done := make(chan struct{})
		go func() { defer close(done); answerAll(theirs) }() // ends with the client's end; waited for below
		in := bufio.NewReader(ours)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := io.WriteString(ours, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`+"\n"); err != nil {
				b.Fatal(err)
			}
			if _, err := in.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
		ours.Close()
		<-done
	})
	for name, version := range map[string]mcp.Version{"legacy": mcp.LatestLegacy, "modern": mcp.LatestModern} {
		b.Run(name, func(b *testing.B) { benchmarkPipe(b, version, false) })
		b.Run(name+"/8", func(b *testing.B) { benchmarkPipe(b, version, true) })
	}
}

func benchmarkPipe(b *testing.B, version mcp.Version, many bool) {
	done := make(chan struct{})
	c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := osPipes(b)
		go func() { defer close(done); answerAll(theirs) }() // ends with the client; waited for below
		return ours, nil
	}, client.Config{Name: "b", Version: version, Share: true})
	req := request(b, "tools/call", `{"name":"x"}`)
	call := func() {
		if _, err := c.Serve(b.Context(), req, &recorder{}); err != nil {
			b.Error(err)
		}
	}
	call() // includes the handshake
	b.ReportAllocs()
	b.ResetTimer()
	if many {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	} else {
		for b.Loop() {
			call()
		}
	}
	if err := c.Close(); err != nil {
		b.Error(err)
	}
	<-done
}
