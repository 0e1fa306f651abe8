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
	// bodyGrace is how long a body may take whatever its size is.
	bodyGrace = 10 * time.Second
	// bodyRate is how many bytes per second a body must bring beyond that: a
	// tenth of the slowest line that anybody still uses.
	bodyRate = 1 << 10
	// firstRead is the buffer for a body that does not say how long it is.
	firstRead = 4 << 10
	// believed is how long a body is taken to be because it says so.
	believed = 16 * firstRead
)

// beginnings are lent to bodies that say that they are longer than is believed, until so
// much of them has come.
//
//nolint:gochecknoglobals // a pool is shared by nature
var beginnings = sync.Pool{New: func() any { return new([believed]byte) }}

var errBodyTooLong = errors.New("body exceeds the limit")

// readBody reads the whole body, because net/http may lose an answer that is
// begun before that. The two errors that the client can do something about are
// told apart from all others, of which it will hardly hear.
func (s *Server) readBody(p *response, r *http.Request) ([]byte, *refusal) {
	pace := bodyPace{rc: &p.rc, start: time.Now()}
	body, err := readAll(r.Body, r.ContentLength, s.cfg.Limits.RequestBody, &pace)
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, errBodyTooLong):
		return nil, s.refuseLength()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body came too slowly: less than %s per second", bytesText(bodyRate))
	default:
		return nil, refuse(http.StatusBadRequest, "the body ended too early")
	}
}

// readAll reads up to limit bytes. It believes a length only as far as data
// comes: a thousand connections that announce the limit and send nothing must
// not cost a thousand times the limit.
func readAll(r io.Reader, length, limit int64, pace *bodyPace) ([]byte, error) {
	if length > believed {
		return readLong(r, length, limit, pace)
	}
	size := int64(firstRead)
	if length >= 0 {
		size = length + 1 // one more, to see the end
	}
	return readOn(r, make([]byte, 0, size), length, limit, pace)
}

// readLong makes room for all that was announced when some of it has come.
func readLong(r io.Reader, length, limit int64, pace *bodyPace) ([]byte, error) {
	lent, _ := beginnings.Get().(*[believed]byte)
	defer beginnings.Put(lent)
	for n := 0; n < len(lent); {
		pace.expect(n)
		m, err := r.Read(lent[n:])
		if n += m; err != nil {
			return nil, err // its end, too, is not yet due
		}
	}
	return readOn(r, append(make([]byte, 0, length+1), lent[:]...), length, limit, pace)
}

// readOn reads the rest behind what there is.
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

// bodyPace moves the connection's read deadline so that a body which keeps to
// the minimum rate is never cut. When the body is read net/http takes the
// deadline back.
type bodyPace struct {
	rc    *http.ResponseController
	start time.Time
}

// expect allows the next read as long as n bytes have earned.
func (p *bodyPace) expect(n int) {
	earned := bodyGrace + time.Duration(n)*time.Second/bodyRate
	// A writer that knows no deadlines (in a test, say) has a body at hand.
	_ = p.rc.SetReadDeadline(p.start.Add(earned))
}

// bytesText returns a size as people write it.
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

// escape returns a value that came from a client as it may stand in a text:
// quoted ASCII, cut where nobody reads on.
func escape(v string) string {
	const most = 64
	if len(v) > most {
		return strconv.QuoteToASCII(v[:most]) + "..."
	}
	return strconv.QuoteToASCII(v)
}
