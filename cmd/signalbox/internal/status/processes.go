// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"fmt"
	"text/tabwriter"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

// writeProcesses writes a table of the processes of the backends that have had some within the
// last hour.
func writeProcesses(b *bytes.Buffer, s *control.Status) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	printed := false
	for i := range s.Backends {
		u := &s.Backends[i]
		if u.Processes == 0 && u.Starts == 0 {
			continue
		}
		if !printed {
			b.WriteByte('\n')
			fmt.Fprintln(w, "BACKEND\tPROCESSES\tMEMORY\tSTARTS IN THE LAST HOUR")
		}
		printed = true
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\n", output.VisibleLine(u.Name), u.Processes, memoryOf(u.Processes, u.Memory), u.Starts)
	}
	_ = w.Flush() // a Buffer returns no error
}

// memoryOf formats the memory of processes.
func memoryOf(processes int, size int64) string {
	if processes == 0 || size < 0 {
		return "-"
	}
	return fmt.Sprintf("%d MiB", (size+1<<19)>>20)
}
