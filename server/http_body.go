// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// bodyGrace is how long a body of any size may take.
	bodyGrace = 10 * time.Second
	// bodyRate is the least number of bytes per second beyond that: a tenth of the
	// slowest line still in use.
	bodyRate = 1 << 10
	// firstRead is the buffer for a body without an announced length.
	firstRead = 4 << 10
	// believed is the largest announced length for which a buffer is allocated at once.
	believed = 16 * firstRead
)

// beginnings are buffers for bodies with a larger announced length, until that much has
// been received.
//
//nolint:gochecknoglobals // a pool is shared by nature
var beginnings = sync.Pool{New: func() any { return new([believed]byte) }}

var errBodyTooLong = errors.New("body exceeds the limit")

// readBody reads the whole body, because net/http may lose a response that is begun
// before that. The two errors that the client can correct have their own messages; the
// others rarely reach it.
func (s *Server) readBody(p *response, r *http.Request) ([]byte, *refusal) {
	pace := bodyPace{rc: &p.rc, start: time.Now()}
	body, err := readAll(r.Body, r.ContentLength, s.cfg.Limits.RequestBody, &pace)
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, errBodyTooLong):
		return nil, s.refuseLength()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body arrived too slowly: less than %s per second", bytesText(bodyRate))
	default:
		return nil, refuse(http.StatusBadRequest, "the body ended too early")
	}
}

// readAll reads up to limit bytes. It allocates an announced length only as data arrives:
// a thousand connections that announce the limit and send nothing must not cost a
// thousand times the limit.
func readAll(r io.Reader, length, limit int64, pace *bodyPace) ([]byte, error) {
	if length > believed {
		return readLong(r, length, limit, pace)
	}
	size := int64(firstRead)
	if length >= 0 {
		size = length + 1 // one more, to detect the end
	}
	return readOn(r, make([]byte, 0, size), length, limit, pace)
}

// readLong allocates the announced length after the first part has been received.
func readLong(r io.Reader, length, limit int64, pace *bodyPace) ([]byte, error) {
	lent, _ := beginnings.Get().(*[believed]byte)
	defer beginnings.Put(lent)
	for n := 0; n < len(lent); {
		pace.expect(n)
		m, err := r.Read(lent[n:])
		if n += m; err != nil {
			return nil, err // io.EOF, too, is too early here
		}
	}
	return readOn(r, append(make([]byte, 0, length+1), lent[:]...), length, limit, pace)
}

// readOn appends the rest to buf.
func readOn(r io.Reader, buf []byte, length, limit int64, pace *bodyPace) ([]byte, error) {
	for {
		pace.expect(len(buf))
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, errBodyTooLong
		case errors.Is(err, io.EOF) && int64(len(buf)) < length:
			return nil, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) == cap(buf):
			buf = slices.Grow(buf, len(buf))
		}
	}
}

// bodyPace moves the read deadline of the connection so that a body at the minimum rate
// is never cut. net/http resets the deadline once the body is read.
type bodyPace struct {
	rc    *http.ResponseController
	start time.Time
}

// expect sets the deadline of the next read after n bytes.
func (p *bodyPace) expect(n int) {
	earned := bodyGrace + time.Duration(n)*time.Second/bodyRate
	// A writer without deadlines, as in a test, has the whole body in memory.
	_ = p.rc.SetReadDeadline(p.start.Add(earned))
}

// bytesText formats a size for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

// escape returns a value from a client for use in a message: quoted ASCII, cut to a
// readable length.
func escape(v string) string {
	const most = 64
	if len(v) > most {
		return strconv.QuoteToASCII(v[:most]) + "..."
	}
	return strconv.QuoteToASCII(v)
}
