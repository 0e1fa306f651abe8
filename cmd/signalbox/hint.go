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

// hinted is an error, and what to do about it.
type hinted struct {
	error

	hint string
}

// Error returns both, the hint last and on a line of its own, as the errors of
// servers are long.
func (h hinted) Error() string { return h.error.Error() + "\n" + h.hint }

// Unwrap returns the error without the hint.
func (h hinted) Unwrap() error { return h.error }

// hint adds to an error of the server at a URL what nearly always helps.
func hint(err error, target *url.URL, hasToken bool) error {
	text := ""
	if own, ok := errors.AsType[*mcp.Error](err); ok && strings.Contains(own.Message, "bearer token") {
		// So says a gateway, with a message in the body of its 401.
		text = tokenHint(hasToken)
	}
	if fault, ok := errors.AsType[*mcp.Fault](err); ok && fault.Outcome == mcp.NotDispatched {
		text = faultHint(fault, target, hasToken)
	}
	if text == "" {
		return err
	}
	return hinted{err, text}
}

// faultHint judges only how the way to the server ended. The client tells that in
// words and not in types, as it is for people; what is looked for here stands in
// transcripts that hold it.
func faultHint(fault *mcp.Fault, target *url.URL, hasToken bool) string {
	switch {
	case errors.Is(fault, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s; start a gateway with 'signalbox serve', or check the URL", target.Host)
	case strings.Contains(fault.Message, "HTTP status 401"):
		return tokenHint(hasToken)
	case !strings.Contains(fault.Message, "HTTP status"):
		return ""
	case strings.Trim(target.Path, "/") == "":
		return fmt.Sprintf("the URL has no path, and MCP endpoints have one; is it %s?", target.JoinPath("mcp"))
	case strings.Contains(fault.Message, "HTTP status 404"):
		return fmt.Sprintf("nothing is at the path %s there; check the URL", target.Path)
	default:
		return "is it an MCP server? --verbose says more"
	}
}

// tokenHint says what to do about a token, and never which one was sent.
func tokenHint(hasToken bool) string {
	if hasToken {
		return "the token in " + tokenVariable + " is not one that it accepts"
	}
	return "put a bearer token for it into " + tokenVariable
}
