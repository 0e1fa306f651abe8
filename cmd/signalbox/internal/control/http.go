// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox"
)

// Decode decodes a server's JSON leniently: checking it is left to the client.
func Decode(text []byte, into any) error {
	return json.Unmarshal(text, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// StatusPath is the path of a gateway's status, independent of that of the MCP endpoint.
const StatusPath = "/status"

// ErrNoSignalbox is returned if another kind of server responds.
var ErrNoSignalbox = errors.New("the server there is not Signalbox, or does not serve its status at this address")

// Status is the status of a gateway, as it is served.
type Status struct {
	signalbox.Status

	Uptime string `json:"uptime"`
}

// Now returns the current time of the gateway's clock, which may differ from the local one.
func (s *Status) Now() time.Time {
	// Computed from two of its own times: with another machine's wrong clock everything
	// would appear old, or in the future.
	up, err := time.ParseDuration(s.Uptime)
	if err != nil {
		return time.Now()
	}
	return s.Started.Add(up)
}

// DecodeStatus decodes a status. One of a later version may have more members.
func DecodeStatus(raw []byte) (*Status, error) {
	var s Status
	if err := json.Unmarshal(raw, &s, jsontext.AllowInvalidUTF8(true)); err != nil || s.Started.IsZero() {
		return nil, errors.Join(ErrNoSignalbox, err)
	}
	return &s, nil
}

const (
	// statusTimeout bounds a request for a status. A gateway responds at once, without
	// waiting for anything.
	statusTimeout = 10 * time.Second

	// MaxStatus bounds the size of a status: some thousand backends need less.
	MaxStatus = 16 << 20
)

// Response is an HTTP response with its body, up to MaxStatus+1 bytes.
type Response struct {
	Code   int
	Header http.Header
	Body   []byte
}

// RoundTrip makes a request without a body. It uses a Transport and not a Client: following a
// redirect would send the token elsewhere.
func RoundTrip(ctx context.Context, transport *http.Transport, method, address string, header http.Header) (*Response, error) {
	return roundTrip(ctx, transport, method, address, header, MaxStatus)
}

// roundTrip is RoundTrip for a response of up to most+1 bytes.
func roundTrip(ctx context.Context, transport *http.Transport, method, address string, header http.Header, most int64) (*Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	return &Response{resp.StatusCode, resp.Header, body}, err
}

// Get is RoundTrip for a GET that is answered at once.
func Get(ctx context.Context, transport *http.Transport, address string, header http.Header) (*Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, errStatusLate)
	defer cancel()
	resp, err := RoundTrip(ctx, transport, http.MethodGet, address, header)
	// When the context ends, the transport's error varies; the cause is what matters.
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return resp, err
}

var errStatusLate = fmt.Errorf("no response within %v; check that it is a gateway and that it is running", statusTimeout)

// dialError is the error of connecting to an address, with what to do about it.
type dialError struct {
	error
	cause error
}

func (e dialError) Unwrap() error { return e.cause }

// ExplainDial returns the error of connecting to an address, with what to do about it. It wraps
// the cause.
func ExplainDial(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dialError{fmt.Errorf("the host name %q is unknown", dns.Name), err}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return dialError{errors.New("nothing listens there; start a gateway with 'signalbox serve', or name the right one with --url"), err}
	}
	return err
}
