// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// latestCalls is how many calls --calls prints.
const latestCalls = 20

// showCalls prints the latest calls of the running gateways of a file, newest first.
func showCalls(ctx context.Context, e *command.Env, src source.Source, asJSON bool) error {
	ctx, done := e.Interruptible(ctx)
	defer done()
	gateways, err := gatewaysWithCalls(ctx, e, src)
	defer control.CloseIdle(gateways)
	if err != nil {
		return err
	}
	all := signalbox.CallRecords{Calls: []signalbox.CallRecord{}}
	for _, g := range gateways {
		known, err := control.CallsAt(ctx, g.Socket, signalbox.CallFilter{Most: latestCalls})
		if err != nil {
			return err
		}
		all.Calls = append(all.Calls, known.Calls...)
		all.Recorded += known.Recorded
		if all.Since.IsZero() || !known.Since.IsZero() && known.Since.Before(all.Since) {
			all.Since = known.Since
		}
	}
	slices.SortStableFunc(all.Calls, func(a, b signalbox.CallRecord) int { return b.Received.Compare(a.Received) })
	all.Calls = all.Calls[:min(len(all.Calls), latestCalls)]
	if asJSON {
		text, err := json.Marshal(all)
		if err != nil {
			return err
		}
		return e.PrintJSON(text)
	}
	if len(all.Calls) == 0 {
		return e.PrintText(e.Stdout, "no call has ended since the gateway was started\n")
	}
	return e.PrintTable(callRows(all.Calls, time.Now()))
}

// gatewaysWithCalls returns the running gateways of a file, or an error without any.
func gatewaysWithCalls(ctx context.Context, e *command.Env, src source.Source) ([]control.Gateway, error) {
	if !src.HasFile() {
		return nil, fmt.Errorf("%s; name the file of the gateway with --config", source.NothingFound(e))
	}
	gateways, err := control.Running(ctx, e, src.Path)
	if len(gateways) == 0 {
		return nil, cmp.Or(err, fmt.Errorf("no running gateway of this user serves %s; calls are remembered until a gateway ends", src.Path))
	}
	return gateways, nil
}

// callRows returns the rows of a table of calls.
func callRows(calls []signalbox.CallRecord, now time.Time) [][]string {
	rows := [][]string{{"CALL", "ENDED", "ITEM", "CLIENT", "TOOK", "OUTCOME"}}
	for i := range calls {
		c := &calls[i]
		outcome := c.Outcome
		if c.Reason != "" {
			outcome += " " + c.Reason
		}
		ended := c.Received.Add(time.Duration(c.Millis * float64(time.Millisecond)))
		rows = append(rows, []string{c.ID, output.Ago(now, ended), c.Name, c.Client, spacedTime(c.Millis), outcome})
	}
	return rows
}
