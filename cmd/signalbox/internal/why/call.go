// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/runner"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// callID returns the id of a call that a text may be.
func callID(text string) (mcp.CallID, bool) {
	id, ok := mcp.ParseCallID(text)
	return id, ok && strings.Contains(text, "-")
}

// whyCallOrName prints a call, or what the text means as a name: a tool may have a name in
// the form of an id.
func whyCallOrName(ctx context.Context, e *command.Env, src source.Source, asJSON bool, id mcp.CallID, name string) error {
	ctx, done := e.Interruptible(ctx)
	defer done()
	err := whyCall(ctx, e, src, asJSON, id)
	if _, unknown := errors.AsType[unknownCall](err); !unknown {
		return err
	}
	x, nameErr := explainRunning(ctx, e, src.Path, name, "")
	if nameErr != nil || x == nil || len(x.Items) == 0 {
		return err
	}
	return printExplanation(e, x, asJSON)
}

// unknownCall is the error about a call that a gateway does not remember.
type unknownCall struct{ error }

// whyCall prints one call of a running gateway.
func whyCall(ctx context.Context, e *command.Env, src source.Source, asJSON bool, id mcp.CallID) error {
	gateways, err := gatewaysWithCalls(ctx, e, src)
	defer control.CloseIdle(gateways)
	if err != nil {
		return err
	}
	var unknown []error
	for _, g := range gateways {
		raw, err := callAt(ctx, g.Socket, id)
		if err != nil {
			unknown = append(unknown, err)
			continue
		}
		if asJSON {
			return e.PrintJSON(raw)
		}
		var call signalbox.CallRecord
		if err := control.Decode(raw, &call); err != nil {
			return err
		}
		return printCall(e, src, &call)
	}
	return errors.Join(unknown...)
}

// printCall prints where the time of a call went.
func printCall(e *command.Env, src source.Source, call *signalbox.CallRecord) error {
	_, err := e.Stdout.Write(append(explainCall(call, packageOf(src, call.Backend)), startHint(src, call)...))
	return err
}

// packageOf returns the package that a server of the configuration runs, or one of npm if
// that is not known.
func packageOf(src source.Source, backend string) runner.Package {
	cfg, err := src.Load()
	if err != nil {
		return runner.Package{}
	}
	srv, err := src.Server(cfg, backend)
	if err != nil {
		return runner.Package{}
	}
	p, _ := runner.Find(srv.Command, srv.Args)
	return p
}

// callAt returns the record of a call from the gateway of a socket.
func callAt(ctx context.Context, socket *http.Transport, id mcp.CallID) ([]byte, error) {
	raw, err := control.At[jsontext.Value](ctx, socket, control.CallsPath+"/"+id.String())
	var known signalbox.CallRecords
	if status, ok := errors.AsType[*control.StatusError](err); ok && status.Code == http.StatusNotFound && control.Decode(status.Body, &known) == nil {
		return nil, unknownCall{errors.New(explainUnknown(id, &known, time.Now()))}
	}
	return raw, err
}

// explainUnknown returns why the gateway does not know a call.
func explainUnknown(id mcp.CallID, known *signalbox.CallRecords, now time.Time) string {
	if known.Recorded == 0 {
		return fmt.Sprintf("unknown call %v: no call has ended since the gateway was started", id)
	}
	since := fmt.Sprintf("the calls since %s (%s) are known", known.Since.Local().Format(time.TimeOnly), output.Ago(now, known.Since))
	if at := id.Time(now); at.Before(known.Since) {
		return fmt.Sprintf("unknown call %v: it is of %s; %s", id, at.Local().Format(time.DateTime), since)
	}
	return fmt.Sprintf("unknown call %v: it is in progress, or of another gateway; %s", id, since)
}

// barWidth is the width of a bar that is the whole call.
const barWidth = 28

// stageRow is the time that a call spent on one stage.
type stageRow struct {
	name string
	ms   float64
	note string
}

// explainCall formats a call: a line with what it was and how it ended, a line for each
// stage, and what can be done about the slowest.
func explainCall(c *signalbox.CallRecord, p runner.Package) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s   %s   %s\n", output.VisibleLine(strings.TrimSpace(c.Method+" "+c.Name)), route(c), ending(c))
	whole := c.Millis
	if c.Delivered != nil {
		whole = max(whole, *c.Delivered)
	}
	for _, r := range stageRows(c, p) {
		line := fmt.Sprintf("  %-8s  %s ms  |%s", r.name, alignedTime(r.ms), bar(r.ms, whole))
		if r.note != "" {
			line += "  " + output.VisibleLine(r.note)
		}
		b.WriteString(line + "\n")
	}
	if c.Parent != "" {
		fmt.Fprintf(&b, "  made by call %s\n", c.Parent)
	}
	if c.InnerCalls > len(c.Inner) { // some are forgotten
		fmt.Fprintf(&b, "  made %d calls, the worst: %s\n", c.InnerCalls, strings.TrimSuffix(c.InnerOutcome+", "+c.InnerDelivery, ", "))
	}
	for i := range c.Inner {
		inner := &c.Inner[i]
		fmt.Fprintf(&b, "  made call %s: %s   %s\n", inner.ID, output.VisibleLine(strings.TrimSpace(inner.Method+" "+inner.Name)), ending(inner))
	}
	return b.Bytes()
}

// startHint returns what to do about a call that has spent most of its time on the start of a
// process.
func startHint(src source.Source, c *signalbox.CallRecord) string {
	if c.Start < c.Millis/2 {
		return ""
	}
	const reuse = "Next calls reuse the process."
	cfg, err := src.Load() // only for its notes
	if err != nil {
		return reuse + "\n"
	}
	for _, note := range cfg.Notes {
		server, _, _ := configpath.CutServer(note.Path)
		if note.Code != code.FileUnpinned || server != c.Backend {
			continue
		}
		most := "time that its package takes"
		if c.Install > 0 {
			most = packageOf(src, server).Kind.Manager() + " time"
		}
		return fmt.Sprintf("%s \"signalbox pin %s\" avoids most of the %s.\n", reuse, server, most)
	}
	return reuse + "\n"
}

// route returns the client and what it called, with the revisions.
func route(c *signalbox.CallRecord) string {
	with := func(name string, v mcp.Version) string {
		if v != "" {
			name += " (" + string(v) + ")"
		}
		return output.VisibleLine(name)
	}
	text := with(cmp.Or(c.Client, "a client without a name"), c.ClientVersion)
	if c.Backend != "" {
		text += " > " + with(c.Backend, c.BackendVersion)
	}
	return text
}

// ending returns how a call ended, and after how long.
func ending(c *signalbox.CallRecord) string {
	text := c.Outcome
	switch {
	case c.Reason != "":
		text += " " + c.Reason
	case c.Code != 0:
		text += fmt.Sprintf(" %d", c.Code)
	}
	text += ", " + spacedTime(c.Millis)
	switch mcp.Outcome(c.Delivery) {
	case mcp.NotDispatched:
		text += "; it was not sent to the server"
	case mcp.Unknown:
		text += "; it may have been executed"
	case mcp.Completed:
		text += "; it was executed"
	}
	return output.VisibleLine(text)
}

// stageRows returns the stages that a call has reached, and the one in which it ended.
func stageRows(c *signalbox.CallRecord, p runner.Package) []stageRow {
	var rows []stageRow
	at := 0.0
	step := func(name string, until float64, note string) {
		rows = append(rows, stageRow{name, max(0, until-at), note})
		at = max(at, until)
	}
	if c.Admitted != nil {
		if *c.Admitted >= 1 { // otherwise it says nothing
			step("admit", *c.Admitted, "waited for its turn")
		}
		at = max(at, *c.Admitted)
	}
	stages := []struct {
		name  string
		until *float64
		note  string
	}{
		{"resolve", c.Resolved, ""},
		{"lease", c.Leased, leaseNote(c, p)},
		{"send", c.Sent, ""},
		{"response", c.LastByte, askNote(c)},
	}
	for _, s := range stages {
		if s.until != nil {
			step(s.name, *s.until, s.note)
			continue
		}
		switch {
		case c.LastByte != nil: // the time is a part of the next row
			continue
		case len(c.Inner) > 0:
			step("calls", c.Millis, askNote(c))
		case c.Resolved == nil, c.Backend == "":
		case c.Attempts == 0: // a backend in the gateway's own process
			step("serve", c.Millis, askNote(c))
		default:
			step(s.name, c.Millis, strings.Join(output.NonEmpty(s.note, "ended here"), "; "))
		}
		break
	}
	if c.Delivered != nil {
		step("deliver", *c.Delivered, "")
	}
	return rows
}

// leaseNote returns what the wait for a connection was about.
func leaseNote(c *signalbox.CallRecord, p runner.Package) string {
	var parts []string
	switch {
	case c.Install > 0:
		parts = append(parts, fmt.Sprintf("started its process: %s %s, %s %s", p.Kind.Manager(), spacedTime(c.Install), p.Kind.Program(), spacedTime(c.Start-c.Install)))
	case c.Start > 0:
		parts = append(parts, "started its process: "+spacedTime(c.Start))
	}
	if c.Handshake > 0 {
		parts = append(parts, "handshake "+spacedTime(c.Handshake))
	}
	if c.Attempts > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", c.Attempts))
	}
	return strings.Join(parts, "; ")
}

// askNote returns how long the call waited for its client.
func askNote(c *signalbox.CallRecord) string {
	if c.Asks == 0 {
		return ""
	}
	return fmt.Sprintf("%s to the client, unanswered for %s", output.Plural(c.Asks, "request"), spacedTime(c.Waiting))
}

// bar returns a bar for a part of the whole. A part of at least a hundredth is visible.
func bar(part, whole float64) string {
	if whole <= 0 {
		return ""
	}
	n := int(math.Round(part / whole * barWidth))
	if n == 0 && part >= whole/100 {
		n = 1
	}
	return strings.Repeat("#", min(n, barWidth))
}

// alignedTime formats milliseconds so that the points of a column are below each other.
func alignedTime(ms float64) string {
	if ms < 0.1 {
		return fmt.Sprintf("%8.2f", ms)
	}
	return fmt.Sprintf("%7.1f ", ms)
}

// spacedTime is output.ShortTime with a space before the unit.
func spacedTime(ms float64) string {
	text := output.ShortTime(ms)
	if number, ok := strings.CutSuffix(text, "ms"); ok {
		return number + " ms"
	}
	if number, ok := strings.CutSuffix(text, "s"); ok && !strings.ContainsAny(number, "mh") {
		return number + " s"
	}
	return text
}
