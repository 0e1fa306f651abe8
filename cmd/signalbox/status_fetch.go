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
	// statusWithin is how long a status is waited for. A gateway waits for nobody
	// to tell it, so that one which does not answer has a problem of its own.
	statusWithin = 10 * time.Second

	// maxStatus bounds what is read as one: some thousand backends.
	maxStatus = 16 << 20
)

// fetchStatus returns the JSON text that a gateway answers with.
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
	// The transport and not a client of it: a redirect leads somewhere else with
	// the token, and is told instead.
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
		return nil, refusedStatus(resp, body)
	}
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, errNoSignalbox
	}
	return body, nil
}

// withStatusTimeout gives a context the time for a status, and its end the words
// that say so.
func withStatusTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, statusWithin, errStatusLate)
}

// errStatusLate is what the end of that time means.
var errStatusLate = fmt.Errorf("it did not answer within %v, as a gateway does at once; is it one, and alive?", statusWithin)

// explainDial says what to do about an address that cannot be reached.
func explainDial(ctx context.Context, err error) error {
	// The end of the context makes the transport's error another one each time, by
	// where it was; why it ended is what matters.
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("the name %q is not known", dns.Name)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("nothing listens there; start a gateway with 'signalbox serve', or name the one that is meant with --url")
	}
	return err
}
