// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/http1"
)

// newTransport returns the transport of one client, so that idle connections to one
// instance of a backend can be closed without affecting others. It does not limit the
// time of a response: that is the call's deadline.
func newTransport(s *call.Setup) *http1.Transport {
	dialer := &net.Dialer{Timeout: s.Connect, KeepAlive: 15 * time.Second, Control: growReceiveBuffer}
	return &http1.Transport{
		Dial:                dialer.DialContext,
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: s.Connect,
		WriteTimeout:        s.Write,
		MaxHeaderBytes:      1 << 20, // far above what servers send
		MaxIdle:             64,
		IdleTimeout:         90 * time.Second,
	}
}

// isHeaderOverflow reports whether a response was rejected because of the size of its
// headers. net/http identifies that error only by its text, in either version of HTTP.
func isHeaderOverflow(err error) bool {
	if errors.Is(err, http1.ErrHeaderTooLong) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") || strings.Contains(text, "response header list larger than")
}
