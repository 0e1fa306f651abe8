// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package yardstick

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
)

// Relay starts a program and passes on what comes for it, and what it says, until both
// have ended. It is the least that can stand between a client and a server on pipes: it
// copies what there is as soon as it is there, and does not look at it.
func Relay(cmd *exec.Cmd, in io.Reader, out io.Writer) error {
	to, from, err := start(cmd)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { // ends with the input
		err := copyPieces(to, in)
		sent <- errors.Join(err, to.Close())
	}()
	err = copyPieces(out, from)
	return errors.Join(err, <-sent, cmd.Wait())
}

// start starts a program, and returns the way to it and from it.
func start(cmd *exec.Cmd) (to io.WriteCloser, from io.ReadCloser, err error) {
	if to, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if from, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	return to, from, cmd.Start()
}

// copyPieces copies what there is, piece by piece, and by no way that the system has
// between files: a program that looks at what it passes on has none of these.
func copyPieces(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
	return err
}

// RelayHTTP starts a program, and passes on to it what comes over HTTP, for as long as
// serve does that.
func RelayHTTP(cmd *exec.Cmd, serve func(http.Handler) error) error {
	to, from, err := start(cmd)
	if err != nil {
		return err
	}
	err = serve(overHTTP(to, from))
	to.Close()
	_ = cmd.Wait() // it ends with its input; how says nothing
	return err
}

// overHTTP writes each request to a program, and answers with the next line of what that
// says. It is the least that can stand between a client over HTTP and a server on pipes,
// for one client alone: it has one request on its way at a time, and others wait.
func overHTTP(to io.Writer, from io.Reader) http.Handler {
	r := &relay{to: to, from: bufio.NewReaderSize(from, maxLine)}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			return // 200, which is the answer to a DELETE
		}
		if err := r.pass(w, req.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
}

// maxLine is more than the longest answer that is measured on pipes.
const maxLine = 2 << 20

// relay is the way to a program and back.
type relay struct {
	mu   sync.Mutex
	to   io.Writer
	from *bufio.Reader
	buf  bytes.Buffer
}

// pass passes a message on, and its answer back if it is a request.
func (r *relay) pass(w http.ResponseWriter, body io.Reader) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf.Reset()
	if _, err := r.buf.ReadFrom(body); err != nil {
		return err
	}
	isRequest := bytes.Contains(r.buf.Bytes(), []byte(`"id":`))
	r.buf.WriteByte('\n')
	if _, err := r.to.Write(r.buf.Bytes()); err != nil {
		return err
	}
	if !isRequest {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	answer, err := r.from.ReadSlice('\n')
	if err != nil {
		return err
	}
	answer = bytes.TrimSuffix(answer, []byte("\n"))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(answer)))
	h.Set("Mcp-Session-Id", "relay") // which a modern client does not look at
	_, _ = w.Write(answer)           // who has gone away has nobody to be told
	return nil
}
