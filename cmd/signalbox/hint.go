// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// hintedError is an error with a hint how to fix it.
type hintedError struct {
	error

	hint string
}

// Error returns the error and the hint. The hint is on a line of its own, as the errors
// of servers are long.
func (h hintedError) Error() string { return h.error.Error() + "\n" + h.hint }

// Unwrap returns the error without the hint.
func (h hintedError) Unwrap() error { return h.error }

// hint adds a hint to an error of the server at target, if there is one for it.
func hint(err error, target *url.URL, hasToken bool) error {
	text := ""
	if own, ok := errors.AsType[*mcp.Error](err); ok && strings.Contains(own.Message, "bearer token") {
		// A gateway's message, in the body of its 401.
		text = tokenHint(hasToken)
	}
	if fault, ok := errors.AsType[*mcp.Fault](err); ok && fault.Outcome == mcp.NotDispatched {
		text = faultHint(fault, target, hasToken)
	}
	if text == "" {
		return err
	}
	return hintedError{err, text}
}

// faultHint returns a hint for a request that did not reach the server. It inspects the
// message, as the client does not report the status in a type; transcripts in
// testdata/script hold the texts.
func faultHint(fault *mcp.Fault, target *url.URL, hasToken bool) string {
	switch {
	case errors.Is(fault, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s; start a gateway with 'signalbox serve', or check the URL", target.Host)
	case strings.Contains(fault.Message, "HTTP status 401"):
		return tokenHint(hasToken)
	case !strings.Contains(fault.Message, "HTTP status"):
		return ""
	case strings.Trim(target.Path, "/") == "":
		return fmt.Sprintf("the URL has no path, but MCP endpoints have one; did you mean %s?", target.JoinPath("mcp"))
	case strings.Contains(fault.Message, "HTTP status 404"):
		return fmt.Sprintf("the server has nothing at the path %s; check the URL", target.Path)
	default:
		return "check that it is an MCP server; --verbose shows more"
	}
}

// tokenHint returns a hint about the token, without the token itself.
func tokenHint(hasToken bool) string {
	if hasToken {
		return "the token in " + tokenVariable + " was not accepted; check it"
	}
	return "put a bearer token for the server into " + tokenVariable
}
