// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/wait"
)

// maxLine bounds a request on a pipe. No request of a bench is as long.
const maxLine = 1 << 20

// ServeStdio runs the backend on pipes, with one message per line. It returns at the end of
// its input, and with an error for an unexpected request.
func ServeStdio(in io.Reader, out io.Writer, setup Setup) error {
	o := newOffer(setup, new(library))
	r := bufio.NewReaderSize(wait.NewReader(in), maxLine)
	var b []byte
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		m, err := scan(line)
		if err != nil {
			return err
		}
		if m.id == nil {
			continue
		}
		b = appendLines(b[:0], o, &m, isModern(line))
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
}

// appendLines appends the response to a message. Streams need no special form here: each
// message is a line.
func appendLines(b []byte, o *offer, m *message, modern bool) []byte {
	if modern && o.setup.Era != Legacy && string(m.method) == "subscriptions/listen" {
		// The data of an event, between its field name and its end.
		event := acknowledge(m.id)
		return append(append(b, event[len("data: "):len(event)-2]...), '\n')
	}
	a, _ := o.find(m)
	if m.token != nil {
		for i := range a.events {
			b = append(appendProgress(b, m.token, i+1, a.events), '\n')
		}
	}
	b = append(append(b, envelope...), m.id...)
	return append(append(b, a.tail(modern)...), '\n')
}

// isModern reports whether a message is of the modern era, which on a pipe only its
// metadata shows.
func isModern(line []byte) bool {
	return bytes.Contains(line, []byte(`"io.modelcontextprotocol/protocolVersion":"`+ModernVersion+`"`))
}
