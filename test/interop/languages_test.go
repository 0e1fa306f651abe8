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

// machine has the installed languages.
type machine struct {
	node   *foreign.Node   // nil without Node.js
	python *foreign.Python // nil without Python
	// python1 has version 1 of the Python SDK, which cannot be installed beside version 2.
	python1 *foreign.Python
	// rust is the program of the client in Rust, and java the class path of the one in Java.
	// They are empty if not requested, or if they cannot be built.
	rust, java string
	lacks      []string // why a language is missing, and what is not tested because of that
}

// languages installs the clients and servers of each installed language. In CI a missing
// one is an error.
func languages(t testing.TB) machine {
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
	if *more {
		on.compile(t)
	}
	if os.Getenv("CI") == "true" {
		for _, l := range on.lacks {
			t.Error(l)
		}
	}
	return on
}

// compile builds the clients that have a compiler of their own.
func (m *machine) compile(t testing.TB) {
	t.Helper()
	if why := foreign.LacksRust(t); why != "" {
		m.lacks = append(m.lacks, why+": the client in Rust did not run")
	} else {
		m.rust = foreign.BuildRust(t, "rust", "rmcp-client")
	}
	if why := foreign.LacksJava(t); why != "" {
		m.lacks = append(m.lacks, why+": the client in Java did not run")
	} else {
		m.java = foreign.BuildJava(t, "java")
	}
}

// printSkipped prints what was not tested, one line for each language.
func (m machine) printSkipped(w io.Writer) {
	for _, l := range m.lacks {
		fmt.Fprintln(w, l)
	}
}
