// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/callertest"
)

// No wrapper of a Caller loses what the Caller can do, but for one that must have the
// whole result.
func TestWrappersPassEverything(t *testing.T) {
	callertest.CheckPackage(t, map[string]callertest.Wrapper{
		"listenCaller": {Wrap: func(c mcp.Caller) mcp.Caller { return &listenCaller{Caller: c} }},
		"safeCaller":   {Wrap: func(c mcp.Caller) mcp.Caller { return &safeCaller{c, newSetup(Config{})} }},
		"taskListen":   {Wrap: func(c mcp.Caller) mcp.Caller { return &taskListen{Caller: c} }},
		"wholeResultCaller": {
			Wrap:    func(c mcp.Caller) mcp.Caller { return &wholeResultCaller{c, c.Extension()} },
			Without: []string{"Receive"},
		},
	})
}
