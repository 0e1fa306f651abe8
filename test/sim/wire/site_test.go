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

// site is one life of something that serves at the ends of lines.
type site struct {
	cut     func() error // ends what is served at once
	http    *http.Server
	lines   []*line
	serving sync.WaitGroup
}

// open begins a life, at the end of no line.
func open(h http.Handler, cut func() error) *site {
	return &site{cut: cut, http: &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}}
}

// serveHTTP has the site stand at the end of a line.
func (st *site) serveHTTP(l *line, buffer int) {
	end := l.listen(buffer)
	st.lines = append(st.lines, l)
	st.serving.Go(func() { _ = st.http.Serve(end) }) // ends with the line; kill and leave wait for it
}

// servePipes has each connection of a line be the pipes of a process of its own,
// which ends when it has nothing to do there any more.
func (st *site) servePipes(l *line, buffer int, serve func(context.Context, io.Reader, io.Writer) error) {
	end := l.listen(buffer)
	st.lines = append(st.lines, l)
	ctx := context.WithoutCancel(l.w.ctx)
	st.serving.Go(func() { // ends with the line; kill and leave wait for it
		for {
			c, err := end.Accept()
			if err != nil {
				return
			}
			st.serving.Go(func() { // ends with the pipe, or with what serves it; they wait for that, too
				defer c.Close()
				_ = serve(ctx, c, c)
			})
		}
	})
}

// kill ends a life as kill -9 does: the connections break, and nothing is said.
func (st *site) kill() {
	for _, l := range st.lines {
		l.crash()
	}
	_ = st.http.Close()
	_ = st.cut()
	st.serving.Wait()
}

// leave ends a life whose work has ended in order. Whoever still reads then has until ctx
// ends.
func (st *site) leave(ctx context.Context) {
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
