// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox"
)

// latestCalls is how many calls --calls prints.
const latestCalls = 20

// showCalls prints the latest calls of the running gateways of a file, newest first.
func (e *env) showCalls(ctx context.Context, file string, asJSON bool) error {
	ctx, done := e.interruptible(ctx)
	defer done()
	gateways, err := e.gatewaysWithCalls(ctx, file)
	defer closeIdle(gateways)
	if err != nil {
		return err
	}
	all := signalbox.CallRecords{Calls: []signalbox.CallRecord{}}
	for _, g := range gateways {
		known, err := callsAt(ctx, g.socket)
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
		return e.printJSON(text)
	}
	if len(all.Calls) == 0 {
		return e.printText(e.Stdout, "no call has ended since the gateway was started\n")
	}
	_, err = e.Stdout.Write(callsTable(all.Calls, time.Now()))
	return err
}

// callsAt returns the latest calls from the gateway of a socket.
func callsAt(ctx context.Context, socket *http.Transport) (signalbox.CallRecords, error) {
	var known signalbox.CallRecords
	resp, err := get(ctx, socket, socketURL(callsPath+"?limit="+strconv.Itoa(latestCalls)), nil)
	switch {
	case err != nil:
		return known, explainDial(err)
	case resp.code != http.StatusOK:
		return known, fmt.Errorf("HTTP status %d: %s", resp.code, firstLine(resp.body))
	}
	return known, decode(resp.body, &known)
}

// gatewaysWithCalls returns the running gateways of a file. It is an error if there is none.
func (e *env) gatewaysWithCalls(ctx context.Context, file string) ([]runningGateway, error) {
	src := e.source(file)
	if !src.hasFile() {
		return nil, fmt.Errorf("%s; name the file of the gateway with --config", e.nothingFound())
	}
	gateways, err := e.runningGateways(ctx, src.path)
	if len(gateways) == 0 {
		return nil, cmp.Or(err, fmt.Errorf("no running gateway of this user serves %s; calls are remembered until a gateway ends", src.path))
	}
	return gateways, nil
}

func callsTable(calls []signalbox.CallRecord, now time.Time) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CALL\tENDED\tITEM\tCLIENT\tTOOK\tOUTCOME")
	for i := range calls {
		c := &calls[i]
		outcome := c.Outcome
		if c.Reason != "" {
			outcome += " " + c.Reason
		}
		ended := c.Received.Add(time.Duration(c.Millis * float64(time.Millisecond)))
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, ago(now, ended), visibleLine(c.Name), visibleLine(c.Client), spacedTime(c.Millis), visibleLine(outcome))
	}
	_ = w.Flush() // to memory
	return b.Bytes()
}
