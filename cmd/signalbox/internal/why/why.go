// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package why has the command why: it explains why an item is offered or not, and where the
// time of a call went.
package why

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/cost"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// New returns the command that explains a name.
func New(e *command.Env) *cobra.Command {
	var f target.Flags
	var as string
	var asJSON, long, calls bool
	cmd := &cobra.Command{
		Use:   "why (NAME | CALL)",
		Short: "Explain why an item is offered or not, or where the time of a call went",
		Long: `Explain why a tool, prompt, resource or resource template is offered or not. NAME is the
name or URI that clients use, or that the server itself uses, or the name of a server.

The answer has what decides, in order: the server and how long ago it was listed, the
limits, exclude and include, the name by rename or prefix, and conflicts with other
servers, each with its position in the file. For a name that no server lists now, it has
the server that listed it last, servers that may still list it, and the most similar
name.

The running gateway of the file is asked. Without one, the lists are used that the last
gateway of the file has kept, and a server without kept lists is started and ended again.
All are started with --alone, and if no kept list has the name.

With --as the last step is the decision of the policy about the caller that FILE describes,
as for 'signalbox policy why', which shows the value of each rule. The policy is that of the
file, which a running gateway may not have read yet.

CALL is the id of a call in an error, in the log or in the audit record, such as
7k3m9-q2xfa. The answer has how the call ended, and what it has spent its time on. The
running gateway of the file remembers its latest 4096 calls. With --calls the ids of the
latest ones are printed.

With --long it prints the names of tools that are longer than some clients accept.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case long && calls:
				return command.Usagef("both --long and --calls; choose one")
			case as != "" && (long || calls):
				return command.Usagef("--as needs a NAME; leave it out")
			case long:
				return command.ArgsBetween(0, 0, "none with --long")(cmd, args)
			case calls:
				return command.ArgsBetween(0, 0, "none with --calls")(cmd, args)
			}
			return command.ArgsBetween(1, 1, "one NAME or CALL")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			src := source.Find(e, f.Config)
			if calls {
				return showCalls(cmd.Context(), e, src, asJSON)
			}
			if long {
				return f.With(cmd.Context(), e, func(ctx context.Context, t *target.Target) error { return showLongNames(ctx, e, t, asJSON) })
			}
			if as != "" {
				return whyAs(cmd.Context(), e, &f, as, args[0], asJSON)
			}
			if id, ok := callID(args[0]); ok && !f.Alone && !f.Verbose {
				return whyCallOrName(cmd.Context(), e, src, asJSON, id, args[0])
			}
			return why(cmd.Context(), e, &f, src, args[0], asJSON)
		},
	}
	source.Flag(cmd, &f.Config)
	profiles.Flag(cmd, &f.Profile, "for clients of this `PROFILE` of the gateway")
	command.AddWord(cmd, &as, "as", "", "add the decision of the policy about the caller that this `FILE` describes, or - for the anonymous one")
	f.AddStart(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the explanation or the record of the call as JSON")
	cmd.Flags().BoolVar(&calls, "calls", false, "list the latest "+strconv.Itoa(latestCalls)+" calls with their ids, newest first")
	cmd.Flags().BoolVar(&long, "long", false, "list the names of tools with more than "+strconv.Itoa(cost.ShortName)+" characters")
	return cmd
}

// why explains a name. The running gateway is asked even if it serves only a client on stdio.
func why(ctx context.Context, e *command.Env, f *target.Flags, src source.Source, name string, asJSON bool) error {
	if src.HasFile() && !f.Alone && !f.Verbose {
		asking, done := e.Interruptible(ctx)
		x, err := explainRunning(asking, e, src.Path, name, f.Profile)
		done()
		if _, ok := errors.AsType[profiles.MissingError](err); ok {
			return err
		}
		if err != nil {
			return fmt.Errorf("%w; use --alone to start the backends anew", err)
		}
		if x != nil {
			return printExplanation(e, x, asJSON)
		}
		x, err = whyKept(ctx, e, f, src, name)
		if err != nil {
			return err
		}
		if x != nil {
			return printExplanation(e, x, asJSON)
		}
	}
	start := *f
	start.Alone = true
	return start.With(ctx, e, func(ctx context.Context, t *target.Target) error {
		x, err := t.Explain(ctx, name)
		if err != nil {
			return err
		}
		return printExplanation(e, x, asJSON)
	})
}

// whyAs explains a name to the caller that a file describes.
func whyAs(ctx context.Context, e *command.Env, f *target.Flags, as, name string, asJSON bool) error {
	q := signalbox.PolicyQuestion{Name: name, Profile: f.Profile}
	if _, err := policy.Ask(e, as, &q); err != nil {
		return err
	}
	return policy.WithLists(ctx, e, f, func(g *signalbox.Gateway) error {
		x := g.ExplainAs(&q)
		if x == nil {
			return profiles.Missing(f.Profile)
		}
		return printExplanation(e, x, asJSON)
	})
}

// whyKept explains a name by the lists that the last gateway of a file has kept, and those of
// the other backends, which are started. It returns nil if the name is unknown and some lists
// were kept: it may be new.
func whyKept(ctx context.Context, e *command.Env, f *target.Flags, src source.Source, name string) (*signalbox.Explanation, error) {
	kept := *f
	kept.Alone, kept.Lists = true, src.ListsFolder(e)
	no := "no running gateway serves " + src.Path
	var x *signalbox.Explanation
	err := kept.With(ctx, e, func(ctx context.Context, t *target.Target) error {
		s, err := t.Status(ctx)
		if err != nil {
			return err
		}
		from := keptText(s, time.Now())
		e.PrintError(no + ": " + cmp.Or(from, "starting its backends"))
		if x, err = t.Explain(ctx, name); err != nil {
			return err
		}
		if from != "" && len(x.Items) == 0 && x.Route == nil && !x.OfGateway && x.Server == nil && x.Disabled == "" {
			x = nil
			e.PrintError("no kept list has it: starting all backends")
		}
		return nil
	})
	return x, err
}

// keptText describes which lists are used instead of those of running backends. It returns ""
// if no list is kept.
func keptText(s *signalbox.Status, now time.Time) string {
	var oldest time.Time
	others := 0
	for i := range s.Backends {
		b := &s.Backends[i]
		switch {
		case b.State != "kept":
			others++
		case oldest.IsZero() || b.Since.Before(oldest):
			oldest = b.Since
		}
	}
	text := fmt.Sprintf("using the lists kept %s", output.Ago(now, oldest))
	switch {
	case oldest.IsZero():
		return ""
	case others > 0:
		text += ", and starting " + output.Plural(others, "backend")
	}
	return text + " (--alone starts all)"
}

// explainRunning returns the explanation of the running gateway of a file, or nil if there is
// none.
func explainRunning(ctx context.Context, e *command.Env, file, name, profile string) (*signalbox.Explanation, error) {
	found, err := control.Running(ctx, e, file)
	defer control.CloseIdle(found)
	if len(found) == 0 {
		return nil, err
	}
	gateway := fmt.Sprintf("the running gateway, process %d,", found[0].Process)
	query := url.Values{"name": {name}, "profile": {profile}}
	x, err := control.At[*signalbox.Explanation](ctx, found[0].Socket, control.WhyPath+"?"+query.Encode())
	status, _ := errors.AsType[*control.StatusError](err)
	switch {
	case status != nil && status.Code == http.StatusBadRequest:
		return nil, profiles.Missing(output.FirstLine(status.Body))
	case status != nil && status.Code == http.StatusNotFound:
		return nil, fmt.Errorf("%s is of an earlier version and cannot explain names", gateway)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", strings.TrimSuffix(gateway, ","), err)
	}
	e.PrintError(fmt.Sprintf("using the running gateway, process %d", found[0].Process))
	return x, nil
}

func printExplanation(e *command.Env, x *signalbox.Explanation, asJSON bool) error {
	if asJSON {
		return e.PrintValue(x)
	}
	_, err := e.Stdout.Write(explanationText(x, time.Now()))
	return err
}

// explanationText returns an explanation as lines.
func explanationText(x *signalbox.Explanation, now time.Time) []byte {
	var b bytes.Buffer
	var lines []string
	for i := range x.Items {
		it := &x.Items[i]
		line := output.VisibleLine(x.Name+": "+answerFor(it, x.Name)+". "+itemText(it, now)) + "\n"
		if it.Fix != "" {
			line += "  fix: " + output.VisibleLine(it.Fix) + "\n"
		}
		line += changesText(it.Changes)
		// All items of a conflict have the same text.
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
			b.WriteString(line)
		}
	}
	if len(x.Items) == 0 || x.Route != nil {
		b.WriteString(output.VisibleLine(x.Name+": "+unlistedText(x, now)) + "\n")
	}
	return b.Bytes()
}

// answerFor returns whether an item is offered under a name.
func answerFor(it *signalbox.ExplainedItem, name string) string {
	switch {
	case it.Offered && it.Name == name:
		return "offered"
	case it.Offered && it.Own == name:
		return "offered as " + it.Name
	default:
		return "not offered"
	}
}

// changesText returns how a definition has changed, a line for each place.
func changesText(changes []signalbox.ExplainedChange) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(output.VisibleLine(fmt.Sprintf("  changed at %s: %q is now %q", c.Path, c.Old, c.New)) + "\n")
	}
	return b.String()
}

// itemText returns the summary of an item, or its chain.
func itemText(it *signalbox.ExplainedItem, now time.Time) string {
	if it.Summary != "" {
		return it.Summary
	}
	var b strings.Builder
	fmt.Fprintf(&b, "backend %s (%s, listed %s", it.Backend.Name, it.Backend.State, output.Ago(now, it.Backend.Listed))
	if it.Backend.Reason != "" {
		b.WriteString(": " + it.Backend.Reason + output.CodeSuffix(it.Backend.Code))
	}
	b.WriteString(")")
	for _, step := range it.Chain {
		b.WriteString(" > " + step.Text)
		if step.Position != "" {
			b.WriteString(" (" + step.Position + ")")
		}
	}
	return b.String() + output.CodeSuffix(it.Code)
}

// unlistedText returns what is known of a name that no backend lists.
func unlistedText(x *signalbox.Explanation, now time.Time) string {
	switch {
	case x.Route != nil:
		return routeText(x)
	case x.OfGateway:
		return "offered. It is a tool of the gateway itself."
	case x.Server != nil:
		return serverText(x.Server, now)
	case x.Disabled != "":
		return fmt.Sprintf("not offered. Its server is disabled (%s).", x.Disabled)
	}
	var b strings.Builder
	b.WriteString("unknown. No server lists it now")
	for i := range x.Former {
		f := &x.Former[i]
		layout := time.TimeOnly
		if now.Sub(f.Until) >= output.Day {
			layout = time.DateTime
		}
		fmt.Fprintf(&b, "; server %s listed it until %s (%s)", f.Backend, f.Until.Local().Format(layout), f.Cause)
	}
	b.WriteString(".")
	for i := range x.Unreached {
		u := &x.Unreached[i]
		fmt.Fprintf(&b, " Server %s, which may have it, is %s", u.Name, u.State)
		if u.Reason != "" {
			b.WriteString(": " + u.Reason + output.CodeSuffix(u.Code))
		}
		b.WriteString(".")
	}
	for _, text := range x.Unlisted {
		b.WriteString(" " + strings.ToUpper(text[:1]) + text[1:] + ".")
	}
	for _, text := range x.Incomplete {
		b.WriteString(" A list is incomplete: " + text + ".")
	}
	if x.Meant != "" {
		fmt.Fprintf(&b, " Did you mean %s?", x.Meant)
	}
	return b.String()
}

// routeText describes where a URI is read that no list has.
func routeText(x *signalbox.Explanation) string {
	text, reads := "offered. ", "reads"
	if x.Route.Policy != "" && !x.Offered {
		text, reads = "not offered. ", "would read"
	}
	switch r := x.Route; {
	case r.Template != "":
		text += fmt.Sprintf("Server %s %s it by the template %s; no list has it.", r.Backend, reads, r.Template)
	case r.ByName:
		text += fmt.Sprintf("Server %s %s it; no list has it.", r.Backend, reads)
	default:
		text += fmt.Sprintf("Server %s, the only one with resources, %s it; no list has it.", r.Backend, reads)
	}
	if x.Route.Policy != "" {
		text += " Policy: " + x.Route.Policy + "."
	}
	return text
}

// serverText describes a server.
func serverText(s *signalbox.BackendStatus, now time.Time) string {
	text := "a server, " + s.State
	if !s.Since.IsZero() {
		text += fmt.Sprintf(", listed %s: %s", output.Ago(now, s.Since), control.ItemCounts(s))
	}
	if s.Reason != "" {
		text += ": " + s.Reason + output.CodeSuffix(s.Code)
	}
	return text
}

// longToolName is the name of a tool that some clients reject.
type longToolName struct {
	Name       string `json:"name"`
	Server     string `json:"server"`
	Characters int    `json:"characters"`
}

// showLongNames prints the names with more than cost.ShortName characters, the longest first.
func showLongNames(ctx context.Context, e *command.Env, t *target.Target, asJSON bool) error {
	tools, err := cost.MeasureTools(ctx, t)
	if err != nil {
		return err
	}
	names := []longToolName{}
	for i := range tools {
		if n := utf8.RuneCountInString(tools[i].Name); n > cost.ShortName {
			names = append(names, longToolName{tools[i].Name, tools[i].Server, n})
		}
	}
	slices.SortStableFunc(names, func(a, b longToolName) int { return b.Characters - a.Characters })
	if asJSON {
		return e.PrintValue(names)
	}
	if len(names) == 0 {
		fmt.Fprintf(e.Stderr, "no tool has a name with more than %d characters\n", cost.ShortName)
		return nil
	}
	rows := [][]string{{"TOOL", "SERVER", "CHARACTERS", "MORE THAN"}}
	for _, n := range names {
		exceeds := strconv.Itoa(cost.ShortName)
		if n.Characters > cost.LongName {
			exceeds = fmt.Sprintf("%d and %d [%s]", cost.ShortName, cost.LongName, code.NameLong)
		}
		rows = append(rows, []string{n.Name, n.Server, strconv.Itoa(n.Characters), exceeds})
	}
	return e.PrintTable(rows, 2)
}
