// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// authorized sends an HTTP request with the credential for about, and sends it again if
// Credentials allow it after a 401 or 403: the server has not processed it. It is sent again once
// after each of the two statuses. The response that it returns is never one that Credentials
// have answered for.
func (e *Endpoint) authorized(ctx context.Context, about *mcp.Request, header http.Header, send func(http.Header) (*http.Response, error)) (*http.Response, error) {
	again := make(map[int]bool, 2) // the statuses after which it was sent again
	for {
		c, err := e.Credentials.For(ctx, about)
		if err != nil {
			return nil, e.Unauthorized(ctx, err)
		}
		own, err := e.AddCredential(header, c, e.origin)
		if err != nil {
			return nil, e.Unauthorized(ctx, err)
		}
		resp, err := send(own)
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		status := resp.StatusCode
		err = e.Credentials.Refused(ctx, about, c, call.Refusal{Status: status, Challenges: resp.Header.Values("WWW-Authenticate")})
		if errors.Is(err, call.ErrRefused) || err == nil && again[status] {
			return resp, nil
		}
		discard(resp)
		if err != nil {
			return nil, e.Unauthorized(ctx, err)
		}
		again[status] = true
	}
}

// discard reads the body of a refusal, as far as ReadRefusal would, and closes it, so that the
// connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, refusalHead) // what cannot be read closes the connection
	resp.Body.Close()
}
