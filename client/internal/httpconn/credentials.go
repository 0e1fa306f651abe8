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

// access adds the credential for a request to the attempts to send it, and decides after a 401
// or 403 whether there is another attempt: the server has not processed the request. There is
// one more after each of the two statuses.
type access struct {
	*Endpoint

	about              *mcp.Request // nil: without a credential
	used               call.Credential
	again401, again403 bool // whether it was sent again after the status
}

// addTo returns the header with the credential for the next attempt.
func (a *access) addTo(ctx context.Context, header http.Header) (http.Header, error) {
	if a.Credentials == nil || a.about == nil {
		return header, nil
	}
	var err error
	if a.used, err = a.Credentials.For(ctx, a.about); err == nil {
		header, err = a.AddCredential(header, a.used, a.origin)
	}
	if err != nil {
		return nil, a.Unauthorized(ctx, err)
	}
	return header, nil
}

// refused reports whether the request is sent again after this response. Then the response has
// been read. A response with which the request ends is never one that Credentials have answered
// for.
func (a *access) refused(ctx context.Context, resp *http.Response) (again bool, err error) {
	sent := &a.again401
	switch {
	case a.Credentials == nil || a.about == nil:
		return false, nil
	case resp.StatusCode == http.StatusForbidden:
		sent = &a.again403
	case resp.StatusCode != http.StatusUnauthorized:
		return false, nil
	}
	err = a.Credentials.Refused(ctx, a.about, a.used, call.Refusal{Status: resp.StatusCode, Challenges: resp.Header.Values("WWW-Authenticate")})
	if errors.Is(err, call.ErrRefused) || err == nil && *sent {
		return false, nil
	}
	discard(resp)
	if err != nil {
		return false, a.Unauthorized(ctx, err)
	}
	*sent = true
	return true, nil
}

// discard reads the body of a refusal, as far as ReadRefusal would, and closes it, so that the
// connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, refusalHead) // what cannot be read closes the connection
	resp.Body.Close()
}
