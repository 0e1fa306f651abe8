// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// leftProcess is a process that a gateway of a file has started, and that no gateway owns any
// more.
type leftProcess struct {
	id   int
	name string
}

// checkLeft returns the finding on processes that earlier gateways of a file have left, if
// there are some.
func checkLeft(file string) (check.Finding, bool) {
	left := leftProcesses(file)
	f := check.Finding{Kind: "processes", Name: "processes", Result: check.Warn, Code: code.ChildLeft, Fix: "kill"}
	var names []string
	for _, p := range left {
		names = append(names, fmt.Sprintf("%s (%d)", p.name, p.id))
		f.Fix += " " + strconv.Itoa(p.id)
	}
	f.Text = "left by an earlier gateway of the file, and still running: " + strings.Join(names, ", ")
	return f, len(left) > 0
}
