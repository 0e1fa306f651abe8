// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/callertest"
)

// No wrapper of a Caller loses what the Caller can do.
func TestWrappersPassEverything(t *testing.T) {
	callertest.CheckPackage(t, map[string]callertest.Wrapper{
		"safeCaller": {Wrap: func(c mcp.Caller) mcp.Caller { return &safeCaller{c, call.NewSetup(call.Config{})} }},
	})
}
