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

// Relay starts a program and forwards its input and output until both have ended. It is the
// minimum between a client and a server on pipes: it copies data as soon as it is
// available, and does not parse it.
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

// start starts a program, and returns its input and output.
func start(cmd *exec.Cmd) (to io.WriteCloser, from io.ReadCloser, err error) {
	if to, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if from, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	return to, from, cmd.Start()
}

// copyPieces copies available data, piece by piece, and without the shortcuts of the system
// between files, which are not available to a program that reads the data.
func copyPieces(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
	return err
}

// RelayHTTP starts a program, and forwards HTTP requests to it until serve returns.
func RelayHTTP(cmd *exec.Cmd, serve func(http.Handler) error) error {
	to, from, err := start(cmd)
	if err != nil {
		return err
	}
	err = serve(overHTTP(to, from))
	to.Close()
	_ = cmd.Wait() // it ends with its input; its exit status is irrelevant
	return err
}

// overHTTP writes each request to a program, and responds with the next line of its output.
// It is the minimum between a client over HTTP and a server on pipes, for one client alone:
// it handles one request at a time, and others wait.
func overHTTP(to io.Writer, from io.Reader) http.Handler {
	r := &relay{to: to, from: bufio.NewReaderSize(from, maxLine)}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			return // 200, the response to a DELETE
		}
		if err := r.pass(w, req.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
}

// maxLine is more than the longest response that is measured on pipes.
const maxLine = 2 << 20

// relay is a connection to a program.
type relay struct {
	mu   sync.Mutex
	to   io.Writer
	from *bufio.Reader
	buf  bytes.Buffer
}

// pass forwards a message, and its response if it is a request.
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
	h.Set("Mcp-Session-Id", "relay") // modern clients ignore it
	_, _ = w.Write(answer)           // fails only if the client has disconnected
	return nil
}
