// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"errors"
	"net/url"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestWithCause(t *testing.T) {
	t.Parallel()
	server, gateway := &target.Target{URL: new(url.URL)}, new(target.Target)
	for _, tt := range []struct {
		at   *target.Target
		err  error
		want string
	}{
		{server, &mcp.Error{Code: 1001, Message: "down", Data: []byte(`{"source":"gateway","code":"SB_NET_DNS"}`)}, "down (code 1001) [SB_NET_DNS]"},
		{server, &mcp.Fault{Code: 1001, Message: "down", Reason: code.NetDNS, Outcome: mcp.NotDispatched}, "down; the request was not sent"},
		{gateway, &mcp.Fault{Code: 1001, Message: "down", Reason: code.NetDNS, Outcome: mcp.NotDispatched}, "down; the request was not sent [SB_NET_DNS]"},
		{gateway, &mcp.Error{Code: 1, Message: "no", Data: []byte(`{"code":"SB_\u001b[2J"}`)}, "no (code 1)"},
		{gateway, &mcp.Error{Code: 1, Message: "no", Data: []byte(`{"code":5}`)}, "no (code 1)"},
		{gateway, &mcp.Error{Code: 1, Message: "no"}, "no (code 1)"},
		{gateway, errors.New("other"), "other"},
	} {
		if got := withCause(tt.at, tt.err); got.Error() != tt.want || !errors.Is(got, tt.err) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
