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
// have answered for. out is the message of a POST, or nil.
func (e *Endpoint) authorized(ctx context.Context, about *mcp.Request, method string, header http.Header, out *RequestBody) (*http.Response, error) {
	var again401, again403 bool // whether it was sent again after the status
	for {
		c, err := e.Credentials.For(ctx, about)
		if err != nil {
			return nil, e.Unauthorized(ctx, err)
		}
		own, err := e.AddCredential(header, c, e.origin)
		if err != nil {
			return nil, e.Unauthorized(ctx, err)
		}
		var resp *http.Response
		if out != nil {
			resp, err = e.Post(ctx, nil, own, out)
		} else {
			resp, err = e.Fetch(ctx, nil, method, own)
		}
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		status, again := resp.StatusCode, &again401
		if status == http.StatusForbidden {
			again = &again403
		}
		err = e.Credentials.Refused(ctx, about, c, call.Refusal{Status: status, Challenges: resp.Header.Values("WWW-Authenticate")})
		if errors.Is(err, call.ErrRefused) || err == nil && *again {
			return resp, nil
		}
		discard(resp)
		if err != nil {
			return nil, e.Unauthorized(ctx, err)
		}
		*again = true
	}
}

// discard reads the body of a refusal, as far as ReadRefusal would, and closes it, so that the
// connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, refusalHead) // what cannot be read closes the connection
	resp.Body.Close()
}
