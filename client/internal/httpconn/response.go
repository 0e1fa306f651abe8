// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
)

// Media types that may carry messages.
const (
	typeJSON   = "application/json"
	TypeEvents = "text/event-stream"
)

// MediaType returns the media type without parameters, even if those are malformed:
// they do not affect the body.
func MediaType(resp *http.Response) string {
	contentType := resp.Header.Get("Content-Type")
	for _, t := range [...]string{typeJSON, TypeEvents} {
		if rest, ok := strings.CutPrefix(contentType, t); ok && (rest == "" || rest[0] == ';') {
			return t
		}
	}
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil && t == "" {
		return ""
	}
	return t
}

// HasMessages reports whether the response's media type is one that carries messages.
func HasMessages(resp *http.Response) bool {
	if resp.StatusCode/100 != 2 {
		return false
	}
	t := MediaType(resp)
	return t == typeJSON || t == TypeEvents
}

// IsRead reports whether the body was read to its end.
func IsRead(resp *http.Response) bool {
	b, ok := resp.Body.(*answerBody)
	return ok && b.read || resp.Body == http.NoBody
}

// Limits of reading a body after its last message.
const (
	drainBytes = 64 << 10
	drainTime  = 200 * time.Millisecond
)

// StartDrain drains a response in a goroutine of the group, which then calls cancel. It
// reports false, and closes the response, if the group is closing.
func StartDrain(resp *http.Response, group *call.Goroutines, cancel context.CancelFunc) bool {
	// Ends with the stream, or after drainTime. The group's close cancels it and waits
	// for it.
	ok := group.Launch(cancel, true, func() { Drain(resp, cancel) })
	if !ok {
		resp.Body.Close()
	}
	return ok
}

// Drain reads a body to its end, if that is near, and closes it. Only a connection that
// was read to the end can carry the next request.
func Drain(resp *http.Response, cancel context.CancelFunc) {
	defer resp.Body.Close()
	if IsRead(resp) {
		return
	}
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	if _, err := io.CopyN(io.Discard, resp.Body, drainBytes); err == nil {
		cancel() // too much to read
	}
}

// answerBody is a response body that records whether it was read to its end.
type answerBody struct {
	io.ReadCloser
	read bool
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.read = true
	}
	return n, err
}
