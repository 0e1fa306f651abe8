// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

const (
	// statusTimeout bounds a request for a status. A gateway responds at once, without
	// waiting for anything.
	statusTimeout = 10 * time.Second

	// maxStatus bounds the size of a status: some thousand backends need less.
	maxStatus = 16 << 20
)

// fetchStatus returns the JSON text of a gateway's status.
func fetchStatus(ctx context.Context, address *url.URL, header http.Header) ([]byte, error) {
	ctx, cancel := withStatusTimeout(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header = header
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	// A Transport and not a Client: following a redirect would send the token elsewhere, so
	// it is reported instead.
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, explainDial(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus+1))
	switch {
	case err != nil:
		return nil, explainDial(ctx, err)
	case len(body) > maxStatus:
		return nil, errNoSignalbox
	case resp.StatusCode != http.StatusOK:
		return nil, statusError(resp, body)
	}
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, errNoSignalbox
	}
	return body, nil
}

// withStatusTimeout returns a context with statusTimeout, and errStatusLate as its cause.
func withStatusTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, statusTimeout, errStatusLate)
}

// errStatusLate is the error for exceeding statusTimeout.
var errStatusLate = fmt.Errorf("no response within %v; check that it is a gateway and that it is running", statusTimeout)

// explainDial returns the error of connecting to an address, with what to do about it.
func explainDial(ctx context.Context, err error) error {
	// When the context ends, the transport's error varies; the cause is what matters.
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("the host name %q is unknown", dns.Name)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("nothing listens there; start a gateway with 'signalbox serve', or name the right one with --url")
	}
	return err
}
