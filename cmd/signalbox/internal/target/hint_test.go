// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// There is no hint for a request that may have run, or for an error of the server itself.
func TestNoHintWhereThereIsNone(t *testing.T) {
	t.Parallel()
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	for _, err := range []error{
		errors.New("HTTP status 404"),
		&mcp.Error{Code: -32602, Message: "HTTP status 404"},
		&mcp.Fault{Outcome: mcp.Unknown, Message: "HTTP status 404", Cause: syscall.ECONNREFUSED},
		&mcp.Fault{Outcome: mcp.NotDispatched, Message: "it is busy"},
	} {
		if got := hint(err, target, false); !errors.Is(got, err) || got.Error() != err.Error() {
			t.Errorf("%v became %v", err, got)
		}
	}
	cause := &mcp.Fault{Outcome: mcp.NotDispatched, Message: "connection refused", Cause: syscall.ECONNREFUSED}
	if got := hint(cause, target, false); !errors.Is(got, cause) || !strings.HasPrefix(got.Error(), cause.Error()+"\n") {
		t.Errorf("the hint hides its error: %v", got)
	}
}
