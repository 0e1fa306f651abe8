// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lock has the commands lock and approve, which write what a person has approved of the definitions of
// servers: into the lock file beside the configuration, and the texts of the definitions into the folder pins.
package lock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

// New returns the command lock.
func New(e *command.Env) *cobra.Command {
	var f target.Flags
	var check bool
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Pin the definitions of tools and prompts that servers offer now",
		Long: `Write a line for each tool, prompt, skill and template of resources, and for the instructions of each
server, into the lock file beside the configuration. A tool that a server lists otherwise for clients
that render apps has a second line. From then on a definition that changes is not
offered until it is approved: if nothing but its text has changed, the approved one is offered
in its place, and otherwise it is neither listed nor called. Keep the lock file and the folder
pins, which has the texts, in version control.

With a lock file, lock adds the servers that are not in it and removes those that the
configuration does not have any more. What has changed is for signalbox approve.

With --check nothing is written. The exit status is 1 if a definition is not the approved one,
and the difference is printed: for continuous integration.`,
		Args: command.ArgsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd.Context(), e, &f, func(ctx context.Context, l *locked) error {
				if check {
					return l.check(e)
				}
				return l.lock(ctx, e)
			})
		},
	}
	addFlags(cmd, &f)
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, and exit with 1 if a definition is not the approved one")
	return cmd
}

// NewApprove returns the command approve.
func NewApprove(e *command.Env) *cobra.Command {
	var f target.Flags
	var all, yes bool
	cmd := &cobra.Command{
		Use:   "approve (SERVER [NAME...] | --all)",
		Short: "Show what servers have changed, and approve it",
		Long: `Show the difference between what a server offers and what was approved, with the characters
that people do not see spelt out, and approve it after a question. NAME is the server's own
name of a tool, a prompt or a template, or the URI of a skill; without one, everything of the server is meant.
A tool with two definitions is approved for all clients.
Running gateways offer it at once.`,
		Args: command.ArgsBetween(0, 1000, "SERVER and NAMEs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return command.Usagef("name a server, or use --all")
			}
			return with(cmd.Context(), e, &f, func(ctx context.Context, l *locked) error { return l.approve(ctx, e, args, yes) })
		},
	}
	addFlags(cmd, &f)
	cmd.Flags().BoolVar(&all, "all", false, "everything of all servers")
	cmd.Flags().BoolVar(&yes, "yes", false, "approve without a question")
	return cmd
}

func addFlags(cmd *cobra.Command, f *target.Flags) {
	source.Flag(cmd, &f.Config)
	cmd.Flags().BoolVar(&f.Alone, "alone", false, "start the servers even if a gateway with them is running")
}

// locked is a lock file, and what the servers of its configuration offer.
type locked struct {
	src     source.Source
	cfg     *config.Config
	pinned  *pins.Lock // nil without a file
	digests *pins.Digester
	now     *signalbox.Definitions
}

// with calls work with what the servers offer.
func with(ctx context.Context, e *command.Env, f *target.Flags, work func(context.Context, *locked) error) error {
	src, err := source.FindFile(e, f.Config)
	if err != nil {
		return err
	}
	cfg, err := src.Load()
	if err != nil {
		return err
	}
	l := &locked{src: src, cfg: cfg, pinned: cfg.Lock(), digests: pins.NewDigester(cfg.Pins.Ignore)}
	// Also while the servers that were started for it are running: a person may take long to decide.
	return f.With(ctx, e, func(ctx context.Context, t *target.Target) error {
		if err := t.AwaitLists(ctx); err != nil {
			return err
		}
		if l.now, err = t.Definitions(ctx); err != nil {
			return err
		}
		t.Status = nil // problems with what is not approved are printed here
		return work(ctx, l)
	})
}

// key returns the key of a definition.
func key(d *signalbox.Definition) pins.Key {
	return pins.Key{Server: d.Server, Kind: pins.Kind(d.Kind), Name: d.Name, Face: pins.Face(d.Face)}
}

// isApproved reports whether a definition is the approved one.
func (l *locked) isApproved(d *signalbox.Definition) bool {
	return l.pinned.Approves(key(d), l.digests.Of([]byte(d.Listed)))
}

// gone returns what is approved of a server and not offered any more. Its definitions are known, but for pages that could
// not be read.
func (l *locked) gone(s *signalbox.DefinedServer) (keys []pins.Key) {
	for _, k := range l.pinned.Keys() {
		isUnread := k.Kind == pins.Page && slices.ContainsFunc(s.Unread, func(p signalbox.UnreadPage) bool { return p.URI == k.Name })
		if k.Server == s.Name && !isUnread && !slices.ContainsFunc(l.now.Items, func(d signalbox.Definition) bool { return key(&d) == k }) {
			keys = append(keys, k)
		}
	}
	return keys
}

// keepApproved approves what is approved for clients that render apps by the line for others, if that line changes.
func (l *locked) keepApproved(next *pins.Lock, texts map[pins.Digest][]byte) {
	for i := range l.now.Items {
		d := &l.now.Items[i]
		digest := l.digests.Of([]byte(d.Listed))
		if d.Face != string(pins.Plain) && l.isApproved(d) && !next.Approves(key(d), digest) {
			next.Approve(key(d), digest)
			texts[digest] = []byte(d.Listed)
		}
	}
}

// unknownLine returns why the definitions of a server are not known.
func unknownLine(s *signalbox.DefinedServer) string {
	return output.VisibleLine(fmt.Sprintf("the definitions of %s are not known: %s", s.Name, cmp.Or(s.Reason, "it has not answered yet")))
}

// unreadLines returns a line for each page of a server that could not be read.
func unreadLines(s *signalbox.DefinedServer) (lines []string) {
	for _, p := range s.Unread {
		k := pins.Key{Server: s.Name, Kind: pins.Page, Name: p.URI}
		lines = append(lines, output.VisibleLine(fmt.Sprintf("%s could not be read: %s", k, p.Reason)))
	}
	return lines
}

// lock writes the servers that the lock file does not have.
func (l *locked) lock(ctx context.Context, e *command.Env) error {
	next, known := l.pinned.Clone(), l.pinned.Servers()
	var unknown, left, notes []string
	texts := make(map[pins.Digest][]byte)
	added, changed := 0, 0
	for _, s := range l.now.Servers {
		isNew := !slices.Contains(known, s.Name)
		notes = append(notes, unreadLines(&s)...)
		switch {
		case isNew && s.Known:
			next.SetServer(s.Name, pins.Server{Name: s.Is, Version: s.Version, Package: s.Package})
		case !s.Known:
			unknown = append(unknown, s.Name)
			notes = append(notes, unknownLine(&s))
		}
		for i := range l.now.Items {
			d := &l.now.Items[i]
			switch {
			case d.Server != s.Name:
			case !isNew && !l.isApproved(d):
				changed++
			case !isNew || !s.Known:
			case d.Sign != "":
				left = append(left, fmt.Sprintf("%s has a character that people do not see (%s)", key(d), d.Sign))
			default:
				digest := l.digests.Of([]byte(d.Listed))
				next.Approve(key(d), digest)
				texts[digest] = []byte(d.Listed)
				added++
				for _, note := range d.Advice {
					notes = append(notes, adviceLine(key(d).String(), note))
				}
			}
		}
	}
	removed := 0
	for _, name := range known {
		if _, err := l.src.Server(l.cfg, name); err != nil {
			next.RemoveServer(name)
			removed++
		}
	}
	if err := l.write(ctx, e, next, texts); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s added", config.LockFile(l.src.Path), output.Plural(added, "definition"))
	if removed > 0 {
		fmt.Fprintf(&b, ", %s removed", output.Plural(removed, "server"))
	}
	b.WriteByte('\n')
	for _, text := range notes {
		b.WriteString(text + "\n")
	}
	for _, text := range left {
		b.WriteString(output.VisibleLine("left out: "+text+"; look at it with signalbox approve") + "\n")
	}
	if changed > 0 {
		fmt.Fprintf(&b, "%s not approved: look at the difference with signalbox approve\n", output.Plural(changed, "definition")+isAre(changed))
	}
	if err := e.PrintText(e.Stdout, b.String()); err != nil {
		return err
	}
	if err := l.reload(ctx, e); err != nil {
		return err
	}
	if len(unknown) > 0 {
		return fmt.Errorf("not locked, because not all of their definitions are known: %s; run signalbox lock again when they can be reached", strings.Join(unknown, ", "))
	}
	return nil
}

func isAre(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// check prints what is not approved.
func (l *locked) check(e *command.Env) error {
	if l.pinned == nil {
		return fmt.Errorf("%s does not exist; signalbox lock writes it", config.LockFile(l.src.Path))
	}
	var b strings.Builder
	different := 0
	var unknown []string
	for _, s := range l.now.Servers {
		if !s.Known {
			unknown = append(unknown, s.Name)
			b.WriteString(unknownLine(&s) + "\n")
			continue
		}
		for i := range l.now.Items {
			if d := &l.now.Items[i]; d.Server == s.Name && !l.isApproved(d) {
				different++
				l.writeDifference(&b, d)
			}
		}
		for _, line := range unreadLines(&s) {
			b.WriteString(line + "\n")
		}
		for _, k := range l.gone(&s) {
			different++
			fmt.Fprintf(&b, "%s is not there any more\n", output.VisibleLine(k.String()))
		}
	}
	if err := e.PrintText(e.Stdout, b.String()); err != nil {
		return err
	}
	switch {
	case different > 0:
		return fmt.Errorf("%s not what %s has", output.Plural(different, "definition")+isAre(different), config.LockFile(l.src.Path))
	case len(unknown) > 0:
		return fmt.Errorf("not all definitions are known of %s", strings.Join(unknown, ", "))
	}
	return e.PrintText(e.Stdout, fmt.Sprintf("%s: all %s are approved\n", config.LockFile(l.src.Path), output.Plural(len(l.now.Items), "definition")))
}

// writeDifference writes how a definition differs from the approved one. The lock file decides what is new: a running
// gateway may not have applied it yet.
func (l *locked) writeDifference(b *strings.Builder, d *signalbox.Definition) {
	b.WriteString(output.VisibleLine(key(d).String()))
	before := d.Approved
	_, known := l.pinned.Digest(key(d))
	_, isCompared := l.pinned.Compared(key(d))
	switch {
	case !known && isCompared && before != "":
		b.WriteString(": new, and differs from the approved one for others\n")
	case !known:
		before = "{}"
		b.WriteString(": new\n")
	case before == "":
		before = "{}"
		b.WriteString(": changed, and the approved text is missing\n")
	default:
		b.WriteString(": changed\n")
	}
	for _, part := range pins.Diff([]byte(before), []byte(d.Listed)) {
		b.WriteString("  " + output.VisibleLine(part.Path) + "\n")
		if d.Kind == string(pins.Page) {
			part.Old, part.New = changedLines(part.Old, part.New)
		}
		writeLines(b, "-", part.Old)
		writeLines(b, "+", part.New)
	}
	if d.Sign != "" {
		fmt.Fprintf(b, "  it has a character that people do not see (%s)\n", d.Sign)
	}
	for _, note := range d.Advice {
		b.WriteString("  " + adviceLine("", note) + "\n")
	}
}

func writeLines(b *strings.Builder, sign, text string) {
	for part := range strings.Lines(text) {
		b.WriteString("    " + sign + " " + output.VisibleLine(strings.TrimRight(part, "\r\n")) + "\n")
	}
}

// adviceLine returns a note about a definition as a line. of is the definition, or "" if it is named above.
func adviceLine(of string, note pins.Note) string {
	words := slices.DeleteFunc([]string{"look at", of, note.Path}, func(part string) bool { return part == "" })
	return output.VisibleLine(strings.Join(words, " ") + ": " + note.Text)
}

// approve shows the differences and approves them.
func (l *locked) approve(ctx context.Context, e *command.Env, args []string, yes bool) error {
	if l.pinned == nil {
		held := slices.ContainsFunc(l.now.Items, func(d signalbox.Definition) bool { return d.Held })
		if !held {
			return fmt.Errorf("%s does not exist, so nothing waits for an approval; signalbox lock writes it", config.LockFile(l.src.Path))
		}
	}
	chosen, err := l.chosen(args)
	if err != nil {
		return err
	}
	next := l.pinned.Clone()
	texts := make(map[pins.Digest][]byte)
	var b strings.Builder
	n := 0
	for _, d := range chosen {
		if l.isApproved(d) {
			continue
		}
		n++
		l.writeDifference(&b, d)
		digest := l.digests.Of([]byte(d.Listed))
		next.Approve(key(d), digest)
		texts[digest] = []byte(d.Listed)
	}
	for _, s := range l.now.Servers {
		if !s.Known || len(args) > 1 || len(args) == 1 && s.Name != args[0] {
			continue
		}
		for _, line := range unreadLines(&s) {
			b.WriteString(line + "\n")
		}
		for _, k := range l.gone(&s) {
			n++
			fmt.Fprintf(&b, "%s is not there any more\n", output.VisibleLine(k.String()))
			next.Remove(func(other pins.Key) bool { return other == k })
		}
		next.SetServer(s.Name, pins.Server{Name: s.Is, Version: s.Version, Package: s.Package})
	}
	l.keepApproved(next, texts)
	if n == 0 {
		return e.PrintText(e.Stdout, "everything is approved already\n")
	}
	if err := e.PrintText(e.Stdout, b.String()); err != nil {
		return err
	}
	if ok, err := e.Confirm(ctx, yes, "Approve "+output.Plural(n, "change")+"?"); err != nil || !ok {
		return err
	}
	if err := l.write(ctx, e, next, texts); err != nil {
		return err
	}
	if err := e.PrintText(e.Stdout, fmt.Sprintf("%s: %s approved\n", config.LockFile(l.src.Path), output.Plural(n, "change"))); err != nil {
		return err
	}
	return l.reload(ctx, e)
}

// chosen returns the definitions that the arguments name: all, those of a server, or some of them.
func (l *locked) chosen(args []string) (chosen []*signalbox.Definition, err error) {
	if len(args) > 0 && !slices.ContainsFunc(l.now.Servers, func(s signalbox.DefinedServer) bool { return s.Name == args[0] }) {
		if _, err := l.src.Server(l.cfg, args[0]); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the definitions of server %q are not known; it is disabled, or the running gateway does not have it yet", args[0])
	}
	named := make(map[string]bool)
	for i := range l.now.Items {
		d := &l.now.Items[i]
		switch {
		case len(args) > 0 && d.Server != args[0]:
		case len(args) < 2, slices.Contains(args[1:], d.Name):
			chosen = append(chosen, d)
			named[d.Name] = true
		}
	}
	for _, name := range args[min(len(args), 1):] {
		if !named[name] {
			return nil, fmt.Errorf("server %s offers no tool, prompt or template %q", args[0], name)
		}
	}
	return chosen, nil
}

// maxText is the size of the largest text of a definition.
const maxText = 16 << 20

// write writes the texts of definitions, and then the lock file. So each digest has its text.
func (l *locked) write(ctx context.Context, e *command.Env, next *pins.Lock, texts map[pins.Digest][]byte) error {
	path := config.LockFile(l.src.Path)
	old, err := safefile.Read(path, 32<<20)
	if err != nil {
		return err
	}
	// The command has read it some time ago.
	if now, err := config.ReadLock(l.src.Path); err != nil || !bytes.Equal(now.Clone().Format(), l.pinned.Clone().Format()) {
		return errors.Join(err, fmt.Errorf("%s: %w", path, safefile.ErrChanged))
	}
	if len(texts) > 0 {
		if err := os.MkdirAll(config.PinsFolder(l.src.Path), 0o750); err != nil {
			return err
		}
	}
	for digest, text := range texts {
		f, err := safefile.Read(config.TextFile(l.src.Path, digest), maxText)
		if err != nil {
			return err
		}
		if bytes.Equal(f.Text, text) {
			continue
		}
		if err := f.Replace(ctx, text, ""); err != nil {
			return err
		}
	}
	text := next.Format()
	if old.Exists && bytes.Equal(old.Text, text) {
		return nil
	}
	return old.Replace(ctx, text, source.EditLock(e, path))
}

// reload makes the running gateways use the lock file.
func (l *locked) reload(ctx context.Context, e *command.Env) error {
	var failed []error
	for result, err := range control.Reload(ctx, e, l.src.Path) {
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("a running gateway has not read the lock file: %w", err))
			continue
		case len(result.Problems) > 0:
			failed = append(failed, fmt.Errorf("process %d has not read the lock file: %s", result.Process, strings.Join(result.Problems, "; ")))
			continue
		}
		if err := e.PrintText(e.Stdout, fmt.Sprintf("process %d has applied it\n", result.Process)); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
