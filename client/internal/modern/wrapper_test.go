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
		"wholeResultCaller": {
			Wrap: func(c mcp.Caller) mcp.Caller {
				return &wholeResultCaller{Caller: c, CallerExtension: c.Extension()}
			},
			Without: []string{"Receive"}, // it must have the whole result
		},
		"safeCaller": {Wrap: func(c mcp.Caller) mcp.Caller { return &safeCaller{c, call.NewSetup(call.Config{})} }},
	})
}
