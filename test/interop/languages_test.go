// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// machine is what can be run here.
type machine struct {
	node   *foreign.Node   // nil without Node.js
	python *foreign.Python // nil without Python
	// python1 has version 1 of the Python SDK, which cannot be beside version 2.
	python1 *foreign.Python
	lacks   []string // why a language is missing, and what is not tried for that
}

// languages installs the clients and servers of each language that is here. In CI
// one that is missing is an error.
func languages(t *testing.T) machine {
	t.Helper()
	var on machine
	if why := foreign.LacksNode(t); why != "" {
		on.lacks = append(on.lacks, why+": the clients and servers in TypeScript did not run")
	} else {
		node := foreign.InstallNode(t)
		on.node = &node
	}
	if why := foreign.LacksPython(t); why != "" {
		on.lacks = append(on.lacks, why+": the clients and servers in Python did not run")
	} else {
		python, python1 := foreign.InstallPython(t, "python"), foreign.InstallPython(t, "python1")
		on.python, on.python1 = &python, &python1
	}
	if os.Getenv("CI") == "true" {
		for _, l := range on.lacks {
			t.Error(l)
		}
	}
	return on
}

// tell says what was not tried, one line for each language.
func (m machine) tell(w io.Writer) {
	for _, l := range m.lacks {
		fmt.Fprintln(w, l)
	}
}
