// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/clientfile"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/ledger"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

// NewDisconnect returns the command that takes the gateway out of the file of a client.
func NewDisconnect(e *command.Env) *cobra.Command {
	var f connectFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "disconnect (CLIENT | --all)",
		Short: "Take the gateway out of the file of an MCP client",
		Long: `Take the entry for the gateway out of a client's file. The file gets back the bytes that it
had before 'signalbox connect', if nothing else was changed since. Otherwise only the entry
is taken out. The difference is shown first, and is written only after a question.

An entry that somebody has changed is not touched without --replace.`,
		ValidArgs: connectable(),
		Args:      command.ArgsBetween(0, 1, "one CLIENT, or --all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return command.Usagef("want one CLIENT, or --all")
			}
			return disconnect(cmd.Context(), e, f, strings.Join(args, ""))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "disconnect all clients that were connected, also of projects")
	cmd.Flags().BoolVar(&f.project, "project", false, "use the client's file of the project in the working directory")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "also take out an entry that somebody has changed")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the difference, and write nothing")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "write without a question")
	return cmd
}

// disconnect disconnects one client, or with the ID "" all that the ledger has.
func disconnect(ctx context.Context, e *command.Env, f connectFlags, id string) error {
	led, err := ledgerOf(e)
	if err != nil {
		return err
	}
	if id != "" {
		client, err := clientOf(id)
		if err != nil {
			return err
		}
		return disconnectClient(ctx, e, f, led, client)
	}
	records, err := led.All()
	if len(records) == 0 && err == nil {
		return e.PrintText(e.Stdout, "no client is connected\n")
	}
	errs := []error{err}
	for _, r := range records {
		client, ok := clients.ByID(r.Client)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: unknown client %q", r.File, r.Client))
			continue
		}
		errs = append(errs, disconnectFile(ctx, e, f, led, client, r.File))
	}
	return errors.Join(errs...)
}

// disconnectClient disconnects the file of one client: that with a record, or else the one
// that would be written.
func disconnectClient(ctx context.Context, e *command.Env, f connectFlags, led ledger.Ledger, client clients.Client) error {
	scope := clients.User
	if f.project {
		scope = clients.Project
	}
	_, path, ok := edit.Places(e).ToWrite(client, scope)
	records, err := led.All()
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Client == client.ID && !r.Project && !f.project && (!ok || source.FileID(path) != source.FileID(r.File)) {
			return disconnectFile(ctx, e, f, led, client, r.File)
		}
	}
	if !ok {
		return fmt.Errorf("%s has no known file here", client.Name)
	}
	return disconnectFile(ctx, e, f, led, client, path)
}

// disconnectFile disconnects one file.
func disconnectFile(ctx context.Context, e *command.Env, f connectFlags, led ledger.Ledger, client clients.Client, path string) error {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return e.PrintText(e.Stdout, fmt.Sprintf("%s is not connected: there is no folder %s\n", client.Name, e.Tilde(filepath.Dir(path))))
	}
	file, err := safefile.Read(path, configedit.MaxForeign)
	if err != nil {
		return err
	}
	record, err := led.Find(file.Path())
	if err != nil {
		return err
	}
	before := clientfile.File{Client: client, Path: path, Text: file.Text}
	found, err := before.Hash()
	if err != nil {
		return err
	}
	switch state := stateOf(found, "", record); {
	case state == entryAbsent:
		return errors.Join(forget(ctx, led, client, file), e.PrintText(e.Stdout, fmt.Sprintf("%s is not connected: %s has no entry %q\n", client.Name, e.Tilde(path), clientfile.Name)))
	case state == entryCustomized && !f.replace:
		return fmt.Errorf("the entry %q in %s was not written by signalbox, or has been changed since, and stays; --replace takes it out", clientfile.Name, e.Tilde(path))
	}
	after, err := restored(led, before, record)
	if err != nil {
		return err
	}
	if err := e.PrintText(e.Stdout, clientDiff(e.Tilde(path), before, after)); err != nil || f.dryRun {
		return err
	}
	question := fmt.Sprintf("Write %s?", e.Tilde(path))
	if after.Text == nil {
		question = fmt.Sprintf("Remove %s, which signalbox made?", e.Tilde(path))
	}
	if ok, err := e.Confirm(ctx, f.yes, question); !ok {
		return err
	}
	if err := writeRestored(ctx, e, led, file, after.Text); err != nil {
		return err
	}
	return e.PrintText(e.Stdout, afterDisconnect(e, led, file, after, record)+needs(client)+"\n")
}

// restored returns the file without the entry, with the bytes that it had before if nothing
// else has changed. Its Text is nil if there was no file.
func restored(led ledger.Ledger, f clientfile.File, record *ledger.Record) (clientfile.File, error) {
	if record == nil || !record.Whole || ledger.Hash(f.Text) != record.After {
		text, err := f.Disconnect()
		f.Text = text
		return f, err
	}
	if !record.Existed {
		f.Text = nil
		return f, nil
	}
	text, err := led.Before(record.File)
	if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
		record.Whole = false
		return restored(led, f, record)
	}
	f.Text = append([]byte{}, text...) // not nil
	return f, err
}

func writeRestored(ctx context.Context, e *command.Env, led ledger.Ledger, file *safefile.File, text []byte) error {
	ctx, done := e.Interruptible(ctx)
	defer done()
	unlock, err := safefile.Lock(ctx, led.Lock(file.Path()))
	if err != nil {
		return err
	}
	defer unlock()
	if text == nil {
		err = file.Remove()
	} else {
		err = file.Replace(ctx, text, "")
	}
	if err != nil {
		return err
	}
	return led.Forget(file.Path())
}

// forget removes the record of a file that has no entry any more.
func forget(ctx context.Context, led ledger.Ledger, client clients.Client, file *safefile.File) error {
	record, err := led.Find(file.Path())
	if record == nil || err != nil {
		return err
	}
	unlock, err := safefile.Lock(ctx, led.Lock(file.Path()))
	if err != nil {
		return err
	}
	defer unlock()
	// Another process may have connected it in the meantime.
	now, err := safefile.Read(file.Path(), configedit.MaxForeign)
	if err != nil {
		return err
	}
	hash, err := clientfile.File{Client: client, Path: file.Path(), Text: now.Text}.Hash()
	if hash != "" || err != nil {
		return err
	}
	return led.Forget(file.Path())
}

// afterDisconnect describes what was done with a file.
func afterDisconnect(e *command.Env, led ledger.Ledger, file *safefile.File, after clientfile.File, record *ledger.Record) string {
	path := e.Tilde(after.Path)
	switch {
	case after.Text == nil:
		return fmt.Sprintf("removed %s, which signalbox had made\n", path)
	case record != nil && record.Whole && record.After == ledger.Hash(file.Text):
		return fmt.Sprintf("wrote %s as it was before\n", path)
	}
	text := fmt.Sprintf("wrote %s without the entry", path)
	if record == nil || record.After != ledger.Hash(file.Text) {
		text += ": the rest has changed since"
	}
	text += "\n"
	if original := led.Original(file.Path()); edit.IsFile(original) {
		text += fmt.Sprintf("as signalbox found it first, it is in %s\n", e.Tilde(original))
	}
	return text
}

// clientState is what a client's file says about the gateway.
type clientState struct {
	client    clients.Client
	path      string // as it is shown
	connected bool
	profile   string // to which it is connected, or ""
	unknown   bool   // the configuration does not have the profile
	foreign   bool   // connected by an entry that somebody has changed
	missing   int    // servers that the configuration does not have
	both      int
	err       error
}

// clientStates returns the states of all clients that have a file. own are the servers of the
// configuration, if there is one.
func clientStates(e *command.Env, src source.Source, own []imports.Server) []clientState {
	led, err := ledgerOf(e)
	var cfg *config.Config
	if src.HasFile() {
		cfg, _ = loadWithout(e, src) // without it, profiles are not checked
	}
	var all []clientState
	for _, found := range edit.Places(e).Find() {
		if found.Client.Ended {
			continue
		}
		s := clientState{client: found.Client, path: e.Tilde(found.Path)}
		if found.Project != "" {
			s.path, _ = filepath.Rel(found.Project, found.Path) // it is below
		}
		c := &connection{client: found.Client, path: found.Path, scope: found.File.Scope, config: src.Path, cfg: cfg}
		text, readErr := edit.ReadUpTo(found.Path, configedit.MaxForeign)
		if s.err = readErr; s.err == nil {
			s.err = readState(e, &s, c, led, text, own)
		}
		if s.err == nil && err != nil {
			s.err = err
		}
		all = append(all, s)
	}
	return all
}

// readState reads what a file says.
func readState(e *command.Env, s *clientState, c *connection, led ledger.Ledger, text []byte, own []imports.Server) error {
	result, err := imports.Read(foreignSource(e, c), text)
	if err != nil {
		return err
	}
	s.missing, s.both = compare(e, result.Servers, own)
	hash, err := c.clientFile(text).Hash()
	if err != nil || hash == "" {
		return nil //nolint:nilerr // a file that can be read, and has its servers in another form
	}
	s.connected = true
	target := c.path
	if resolved, err := filepath.EvalSymlinks(c.path); err == nil {
		target = resolved
	}
	record, err := led.Find(target)
	s.foreign = record == nil || !slices.Contains(record.Entries, hash)
	if g, _, gatewayErr := c.clientFile(text).Gateway(); gatewayErr == nil {
		s.profile = connectedProfile(g)
	}
	if record != nil && c.cfg != nil && source.FileID(record.Config) == source.FileID(c.config) {
		s.unknown = profiles.Check(c.cfg, s.profile) != nil
	}
	return err
}

// describe returns the state in a few words.
func (s *clientState) describe() string {
	var parts []string
	switch {
	case s.err != nil:
		return "unreadable: " + s.err.Error()
	case s.connected && s.foreign:
		parts = append(parts, "connected by an entry that signalbox did not write")
	case s.connected && s.unknown:
		parts = append(parts, fmt.Sprintf("connected to profile %q, which the configuration does not have (add it, or connect again)", s.profile))
	case s.connected && s.profile != "":
		parts = append(parts, fmt.Sprintf("connected to profile %q", s.profile))
	case s.connected:
		parts = append(parts, "connected")
	}
	if s.missing > 0 {
		parts = append(parts, output.Plural(s.missing, "server")+" not imported (signalbox import)")
	}
	if s.both > 0 && s.connected {
		parts = append(parts, output.Plural(s.both, "server")+" also started by the client (signalbox connect --move)")
	}
	if parts == nil {
		return "not connected"
	}
	return strings.Join(parts, ", ")
}

// listClients prints the clients that have a file, and what it says.
func listClients(e *command.Env, flag string) error {
	var own []imports.Server
	src := source.Find(e, flag)
	if src.HasFile() {
		var err error
		if own, err = edit.ServersOf(e, src.Path); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, s := range clientStates(e, src, own) {
		rows = append(rows, []string{s.client.ID, s.path, s.describe()})
	}
	if rows == nil {
		return e.PrintText(e.Stdout, "no file of a known client is here\n")
	}
	return e.PrintTable(rows)
}

// CheckClients returns the finding on the files of clients, if there are any. A client that has
// nothing to do with the gateway is passed over.
func CheckClients(e *command.Env, src source.Source) (f check.Finding, ok bool) {
	f = check.Finding{Kind: "clients", Name: "clients", Result: check.OK}
	own, err := edit.ServersOf(e, src.Path)
	if err != nil {
		return f, false // the finding on the file says so
	}
	var parts []string
	for _, s := range clientStates(e, src, own) {
		if s.err != nil || s.unknown {
			f.Result = check.Warn
		}
		if s.err != nil || s.connected || s.missing > 0 {
			parts = append(parts, s.client.ID+": "+s.describe())
		}
	}
	f.Text = strings.Join(parts, "; ")
	return f, parts != nil
}
