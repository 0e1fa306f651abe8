// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peer has servers that are built with other projects' libraries: the tools of the
// canned backend, as users of each library would write them, with its defaults.
package peer

import (
	"fmt"
	"net/http"
)

// Names returns the names of the peers.
func Names() []string { return []string{"gosdk", "mcpgo"} }

// New makes a peer with the given number of tools.
func New(name string, tools int) (http.Handler, error) {
	switch name {
	case "gosdk":
		return goSDK(tools), nil
	case "mcpgo":
		return mcpGo(tools), nil
	}
	return nil, fmt.Errorf("unknown peer %q; known are %q", name, Names())
}

// description is the description of every tool, as long as the canned backend's.
const description = "Searches the files below a folder for a pattern and returns what it found, one match on each line with the file and its number."
