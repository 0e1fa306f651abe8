// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

// writeProcesses writes a table of the processes of the backends that have had some within the
// last hour.
func writeProcesses(b *bytes.Buffer, s *control.Status) {
	rows := [][]string{{"BACKEND", "PROCESSES", "MEMORY", "STARTS IN THE LAST HOUR"}}
	for i := range s.Backends {
		u := &s.Backends[i]
		if u.Processes == 0 && u.Starts == 0 {
			continue
		}
		rows = append(rows, []string{u.Name, strconv.Itoa(u.Processes), memoryOf(u.Processes, u.Memory), strconv.Itoa(u.Starts)})
	}
	if len(rows) > 1 {
		b.WriteByte('\n')
		output.WriteColumns(b, rows)
	}
}

// memoryOf formats the memory of processes.
func memoryOf(processes int, size int64) string {
	if processes == 0 || size < 0 {
		return "-"
	}
	return fmt.Sprintf("%d MiB", (size+1<<19)>>20)
}
