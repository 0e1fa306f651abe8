// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
)

// latestCalls is how many calls of a gateway are searched for the one of the command.
const latestCalls = 100

// printID prints the id of the tool call that the command has begun after a time. A result
// does not have it, so it is that of the record. Another command that has called the same tool
// meanwhile has a record with the same members: then there are several.
func printID(ctx context.Context, e *command.Env, t *target.Target, tool string, began time.Time) {
	calls, err := t.Calls(ctx, signalbox.CallFilter{Method: "tools/call", Most: latestCalls})
	if err != nil {
		e.PrintError("the id of the call: " + err.Error())
		return
	}
	isTool := func(name string) bool {
		return name == tool || len(tool) > recorder.MaxName && strings.HasPrefix(tool, name)
	}
	var ids []string
	for i := range calls {
		c := &calls[i]
		if strings.HasPrefix(c.Client, target.ClientName+" ") && isTool(c.Name) && !c.Received.Before(began) {
			ids = append(ids, fmt.Sprintf("%s (%s, %s)", c.ID, c.Outcome, output.ShortTime(c.Millis)))
		}
	}
	if len(ids) == 0 {
		e.PrintError("the gateway has no record of the call")
		return
	}
	e.PrintError("call " + strings.Join(ids, " or "))
}
