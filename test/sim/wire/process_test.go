// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"sync"
)

// process is one life of a server at the ends of links.
type process struct {
	cut     func() error // cuts all requests in flight at once
	http    *http.Server
	lines   []*link
	serving sync.WaitGroup
}

// open starts a process without links.
func open(h http.Handler, cut func() error) *process {
	return &process{cut: cut, http: &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}}
}

// serveHTTP serves HTTP at the end of a link.
func (st *process) serveHTTP(l *link, buffer int) {
	end := l.listen(buffer)
	st.lines = append(st.lines, l)
	st.serving.Go(func() { _ = st.http.Serve(end) }) // ends with the link; kill and leave wait for it
}

// servePipes serves each connection of a link as the pipes of a process of its own, which
// exits when it has nothing left to do.
func (st *process) servePipes(l *link, buffer int, serve func(context.Context, io.Reader, io.Writer) error) {
	end := l.listen(buffer)
	st.lines = append(st.lines, l)
	ctx := context.WithoutCancel(l.w.ctx)
	st.serving.Go(func() { // ends with the link; kill and leave wait for it
		for {
			c, err := end.Accept()
			if err != nil {
				return
			}
			st.serving.Go(func() { // ends with the pipe, or with its server; they wait for it, too
				defer c.Close()
				_ = serve(ctx, c, c)
			})
		}
	})
}

// kill ends the process as kill -9 does: the connections break.
func (st *process) kill() {
	for _, l := range st.lines {
		l.crash()
	}
	_ = st.http.Close()
	_ = st.cut()
	st.serving.Wait()
}

// leave ends a process that has shut down. Readers have until the end of ctx.
func (st *process) leave(ctx context.Context) {
	for _, l := range st.lines {
		l.close()
	}
	if err := st.http.Shutdown(ctx); err != nil {
		for _, l := range st.lines {
			l.reset()
		}
		_ = st.http.Close()
	}
	st.serving.Wait()
}
