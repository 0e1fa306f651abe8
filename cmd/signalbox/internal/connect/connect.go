// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connect has the commands connect and disconnect: they write the gateway into the
// file of an MCP client, and take it out again.
package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/clientfile"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/ledger"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

type connectFlags struct {
	config  string
	profile string // of the gateway; empty means everything
	view    string // full, search, or "": as fits the client and the number of tools
	project bool
	replace bool
	move    bool
	stdio   bool
	dryRun  bool
	yes     bool
	wait    bool
	list    bool
}

// New returns the command that writes the gateway into the file of a client.
func New(e *command.Env) *cobra.Command {
	var f connectFlags
	cmd := &cobra.Command{
		Use:   "connect [CLIENT]",
		Short: "Write the gateway into the file of an MCP client",
		Long: `Write an entry for the gateway into the file in which a client keeps its servers. The
difference is shown first, and is written only after a question. The rest of the file stays
as it is, with comments, order and style. Without CLIENT, or with --list, print the clients
with a file and whether they are connected.

The entry has the URL of the gateway. If the client can only start programs, if the gateway
requires a token, or with --stdio, it starts 'signalbox attach' instead. An entry that
somebody has changed is not touched without --replace.

With --profile the client gets only what that profile of the gateway offers. To change it,
connect again with another profile, or without one. Without one, a client that does not search
tools itself gets the profile "search" while the running gateway offers many tools: 30, or
more tokens than "search.above". --view full lists all, --view search none.

The other servers of the client stay. With --move, those that the configuration has, too,
are disabled in the client's file, or removed if the client cannot disable a server.

'signalbox disconnect' gives the file back as it was.`,
		Example: `  signalbox connect cursor
  signalbox connect claude-code --project --yes
  signalbox connect zed --profile coding
  signalbox connect --list`,
		ValidArgs: connectable(),
		Args:      command.ArgsBetween(0, 1, "one CLIENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || f.list {
				return listClients(e, f.config)
			}
			return connect(cmd.Context(), e, f, args[0])
		},
	}
	source.Flag(cmd, &f.config)
	profiles.Flag(cmd, &f.profile, "connect the client to this `PROFILE` of the gateway")
	command.AddWord(cmd, &f.view, "view", "", "what the client lists: all tools (full), or find_tool and call_tool (search) as `VIEW`")
	cmd.Flags().BoolVar(&f.project, "project", false, "use the client's file of the project in the working directory")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "replace an entry that somebody has changed")
	cmd.Flags().BoolVar(&f.move, "move", false, "disable or remove the client's servers that the configuration has")
	cmd.Flags().BoolVar(&f.stdio, "stdio", false, "write a command that starts the client's connection, instead of the URL")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the difference, and write nothing")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "write without a question")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until the client has connected, as on a terminal; a minute at most")
	cmd.Flags().BoolVar(&f.list, "list", false, "print the clients, and whether they are connected")
	return cmd
}

// connectable returns the IDs of the clients that are still developed.
func connectable() []string {
	var ids []string
	for _, c := range clients.All() {
		if !c.Ended {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// clientOf returns the client of an argument.
func clientOf(id string) (clients.Client, error) {
	c, ok := clients.ByID(id)
	switch {
	case !ok:
		return c, command.Usagef("unknown client %q; known are %s", id, strings.Join(connectable(), ", "))
	case c.Ended:
		return c, command.Usagef("%s is no longer developed; 'signalbox import --from %s' imports its servers", c.Name, c.ID)
	}
	return c, nil
}

// connection is what connect has found out about a client, a file and a configuration.
type connection struct {
	client  clients.Client
	config  string // its path
	profile string // that the client is to use, or ""
	chosen  string // why it is the search profile although no flag names that
	cfg     *config.Config
	gateway clientfile.Gateway
	why     string // the client starts a program although it could use the URL
	running bool   // a gateway of the configuration is running

	file   *safefile.File
	path   string // as the user knows it
	scope  clients.Scope
	record *ledger.Record
}

func connect(ctx context.Context, e *command.Env, f connectFlags, id string) error {
	c, err := newConnection(ctx, e, f, id)
	if err != nil {
		return err
	}
	before := c.clientFile(c.file.Text)
	state, err := c.state()
	switch {
	case err != nil:
		return err
	case state == entryCustomized && !f.replace:
		return fmt.Errorf("the entry %q in %s was not written by signalbox, or has been changed since, and stays; --replace replaces it", clientfile.Name, e.Tilde(c.path))
	}
	after := before
	var aside []string
	if f.move {
		if after.Text, aside, err = setAside(e, c, before); err != nil {
			return err
		}
	}
	if state != entryCurrent {
		if after.Text, err = after.Connect(c.gateway); err != nil {
			return err
		}
	}
	if bytes.Equal(after.Text, before.Text) {
		return e.PrintText(e.Stdout, fmt.Sprintf("%s is connected already: %s\n", c.client.Name, e.Tilde(c.path)))
	}
	if err := e.PrintText(e.Stdout, clientDiff(e.Tilde(c.path), before, after)+c.chosen); err != nil || f.dryRun {
		return err
	}
	question := fmt.Sprintf("Write %s?", e.Tilde(c.path))
	if len(aside) > 0 {
		question = fmt.Sprintf("Write %s (%s)?", e.Tilde(c.path), strings.Join(aside, "; "))
	}
	if ok, err := e.Confirm(ctx, f.yes, question); !ok {
		return err
	}
	written := time.Now()
	if err := writeClient(ctx, e, c, after.Text); err != nil {
		return err
	}
	if err := e.PrintText(e.Stdout, afterConnect(e, c, before, aside)); err != nil {
		return err
	}
	if !f.wait && !e.Terminal(e.Stderr) {
		return nil
	}
	return awaitClient(ctx, e, c, written, f.wait)
}

// newConnection finds the configuration and the client's file.
func newConnection(ctx context.Context, e *command.Env, f connectFlags, id string) (*connection, error) {
	client, err := clientOf(id)
	if err != nil {
		return nil, err
	}
	if err := checkView(&f); err != nil {
		return nil, err
	}
	src, err := source.FindFile(e, f.config)
	if err != nil {
		return nil, err
	}
	c := &connection{client: client, scope: clients.User, profile: f.profile}
	if f.project {
		c.scope = clients.Project
	}
	if c.config, err = filepath.Abs(src.Path); err != nil {
		return nil, err
	}
	if c.cfg, err = loadWithout(e, src); err != nil {
		return nil, err
	}
	if err := profiles.Check(c.cfg, f.profile); err != nil {
		return nil, err
	}
	if err := gatewayFor(ctx, e, c, &f); err != nil {
		return nil, err
	}
	return c, findClientFile(e, c)
}

// loadWithout loads a configuration with variables that may be set for the gateway only.
func loadWithout(e *command.Env, src source.Source) (*config.Config, error) {
	cfg, err := src.Load()
	if err == nil {
		return cfg, nil
	}
	text, readErr := edit.ReadUpTo(src.Path, configedit.MaxSize)
	if readErr != nil {
		return nil, err
	}
	cfg, parseErr := config.Parse(src.Path, text, func(name string) (string, bool) {
		if value, set := e.LookupEnv(name); set {
			return value, true
		}
		return "0", true
	})
	if parseErr != nil {
		return nil, err
	}
	return cfg, nil
}

// gatewayFor decides how the client reaches the gateway.
func gatewayFor(ctx context.Context, e *command.Env, c *connection, f *connectFlags) error {
	own, err := source.Origin(c.cfg)
	if err != nil {
		return err
	}
	gateways, _ := control.Running(ctx, e, c.config) // one that does not respond is no concern here
	defer control.CloseIdle(gateways)
	running := slices.IndexFunc(gateways, func(g control.Gateway) bool { return g.URL != "" })
	c.running = running >= 0
	c.chooseView(ctx, f.view, gateways)
	switch {
	case f.stdio:
	case !clientfile.SpeaksHTTP(c.client):
		c.why = c.client.Name + " can only start programs"
		if !c.client.Transports.Source.IsKnown() {
			c.why = "it is not known whether " + c.client.Name + " can use a URL"
		}
	case len(c.cfg.Auth.Tokens) > 0:
		c.why = "the gateway requires a token (\"auth.tokens\"), and no credential is written into the file of a client"
	case len(c.cfg.Auth.Issuers) > 0:
		c.why = "the gateway requires an access token (\"auth.issuers\") at a URL, and none on this machine"
	case !c.cfg.Auth.IsZero():
		c.why = "the gateway requires a credential (\"auth\") at a URL, and none on this machine"
	case own.Port() == "0":
		c.why = "the gateway has another port at each start (\"listen\")"
	case c.running:
		c.gateway.URL = atPath(gateways[running].URL, c.profile)
		return nil
	default:
		own.Path = c.cfg.Effective().Path
		c.gateway.URL = atPath(own.String(), c.profile)
		return nil
	}
	c.gateway.Command, err = ownProgram()
	c.gateway.Args = []string{"attach", "--config", c.config}
	if c.profile != "" {
		c.gateway.Args = append(c.gateway.Args, "--profile", c.profile)
	}
	return err
}

// ownProgram returns the path of this program. The name in PATH is preferred: a package
// manager keeps it for the next version.
func ownProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(own)
	if err != nil {
		return "", err
	}
	if found, err := exec.LookPath("signalbox"); err == nil {
		if other, err := os.Stat(found); err == nil && os.SameFile(info, other) && filepath.IsAbs(found) {
			return found, nil
		}
	}
	if isTemporary(own) {
		return "", errors.New("this program is in a folder that 'go run' removes, so that no client could start it later; install it first: go install ./cmd/signalbox")
	}
	return own, nil
}

// isTemporary reports whether a path is that of a program of 'go run'.
func isTemporary(path string) bool {
	return strings.Contains(filepath.ToSlash(path), "/go-build") && filepath.Base(filepath.Dir(path)) == "exe"
}

// findClientFile finds and reads the client's file.
func findClientFile(e *command.Env, c *connection) error {
	place, path, ok := edit.Places(e).ToWrite(c.client, c.scope)
	switch {
	case !ok && c.scope == clients.Project:
		return fmt.Errorf("%s has no known file of a project", c.client.Name)
	case !ok:
		if err := e.PrintText(e.Stdout, c.byHand()); err != nil {
			return err
		}
		return fmt.Errorf("where %s keeps its servers on %s is not known; add the entry above there by hand", c.client.Name, runtime.GOOS)
	}
	c.path = path
	if source.FileID(path) == source.FileID(c.config) {
		return fmt.Errorf("%s is the configuration itself: its servers would be started by both (first 'signalbox import %s --into %s', and then connect with --config %[3]s)",
			e.Tilde(path), filepath.Base(path), edit.FileName)
	}
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a folder", e.Tilde(folder))
	case err == nil:
		c.file, err = safefile.Read(path, configedit.MaxForeign)
	case c.scope == clients.Project:
		c.file, err = &safefile.File{}, nil // the folder is created when it is needed
	default:
		return fmt.Errorf("%s seems not to be installed: there is no folder %s (start it once)", c.client.Name, e.Tilde(folder))
	}
	switch {
	case err != nil:
		return err
	case !c.file.Exists && place.Reserved:
		return fmt.Errorf("there is no %s, and only %s may make it (start it once)", e.Tilde(path), c.client.Name)
	}
	led, err := ledgerOf(e)
	if err == nil {
		c.record, err = led.Find(c.file.Path())
	}
	return err
}

// byHand returns the entry as a whole file.
func (c *connection) byHand() string {
	text, err := clientfile.File{Client: c.client, Path: "x.json"}.Connect(c.gateway)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (c *connection) clientFile(text []byte) clientfile.File {
	return clientfile.File{Client: c.client, Path: c.path, Text: text}
}

// entryState is what is known about the gateway's entry in a file.
type entryState int

const (
	entryAbsent     entryState = iota
	entryCurrent               // as it would be written now
	entryOurs                  // as it was written before
	entryCustomized            // as somebody has changed or written it
)

// state returns the state of the entry.
func (c *connection) state() (entryState, error) {
	found, err := c.clientFile(c.file.Text).Hash()
	if err != nil {
		return entryAbsent, err
	}
	want, err := c.gateway.HashOf(c.client)
	if err != nil {
		return entryAbsent, err
	}
	return stateOf(found, want, c.record), nil
}

func stateOf(found, want string, record *ledger.Record) entryState {
	switch {
	case found == "":
		return entryAbsent
	case found == want:
		return entryCurrent
	case record != nil && slices.Contains(record.Entries, found):
		return entryOurs
	default:
		return entryCustomized
	}
}

// ledgerOf returns the ledger of the user.
func ledgerOf(e *command.Env) (ledger.Ledger, error) {
	folder, err := source.StateHome(e)
	return ledger.Ledger(filepath.Join(folder, "ledger")), err
}

// setAside disables or removes the servers of the client that the configuration has, too. what
// describes it for a question.
func setAside(e *command.Env, c *connection, f clientfile.File) (text []byte, what []string, err error) {
	result, err := imports.Read(foreignSource(e, c), f.Text)
	if err != nil {
		return nil, nil, err
	}
	own, err := edit.ServersOf(e, c.config)
	if err != nil {
		return nil, nil, err
	}
	var servers []clientfile.Server
	for _, s := range result.Servers {
		same := func(other imports.Server) bool { return imports.IsSame(&s, &other, e.LookupEnv) }
		if !s.Disabled && slices.ContainsFunc(own, same) {
			servers = append(servers, clientfile.Server{Name: s.Original, Line: s.Origins[0].Line})
		}
	}
	text, disabled, removed, err := f.SetAside(servers)
	if len(disabled) > 0 {
		what = append(what, "disables "+strings.Join(disabled, ", "))
	}
	if len(removed) > 0 {
		what = append(what, "removes "+strings.Join(removed, ", "))
	}
	return text, what, err
}

// foreignSource returns how the client's file is read.
func foreignSource(e *command.Env, c *connection) imports.Source {
	src := imports.Source{File: c.path, Client: c.client.ID, Dialect: c.client.Dialect, Home: edit.Places(e).Home, Exists: edit.IsFile}
	if c.scope == clients.Project {
		src.Project = edit.Places(e).Project
	}
	return src
}

// clientDiff returns the difference between two contents of a client's file, without
// credentials.
func clientDiff(name string, before, after clientfile.File) string {
	hidden := slices.Concat(imports.Literals(before.Path, before.Text), imports.Literals(before.Path, after.Text))
	return edit.CutLong(redact.Of(edit.WithEscaped(hidden)...).Text(edit.UnifiedDiff(name, before.Text, after.Text)))
}

// writeClient writes the client's file, and records it.
func writeClient(ctx context.Context, e *command.Env, c *connection, text []byte) error {
	ctx, done := e.Interruptible(ctx)
	defer done()
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	if c.file.Path() == "" { // its folder was absent
		file, err := safefile.Read(c.path, configedit.MaxForeign)
		if err != nil {
			return err
		}
		if file.Exists {
			return fmt.Errorf("%s: %w", c.path, safefile.ErrChanged)
		}
		c.file = file
	}
	led, err := ledgerOf(e)
	if err != nil {
		return err
	}
	path := c.file.Path()
	unlock, err := safefile.Lock(ctx, led.Lock(path))
	if err != nil {
		return err
	}
	defer unlock()
	if c.record, err = led.Find(path); err != nil {
		return err
	}
	record, keep, err := c.newRecord(text)
	if err != nil {
		return err
	}
	if err := led.Begin(record, c.file.Text, keep); err != nil {
		return err
	}
	if err := c.file.Replace(ctx, text, ""); err != nil {
		return errors.Join(err, restoreRecord(led, path, c.record))
	}
	return led.Done(record)
}

// newRecord returns the record of a new content. keep is whether the content before the first
// entry is still to be given back.
func (c *connection) newRecord(text []byte) (record ledger.Record, keep bool, err error) {
	hash, err := c.clientFile(text).Hash()
	if err != nil {
		return ledger.Record{}, false, err
	}
	record = ledger.Record{
		File: c.file.Path(), Client: c.client.ID, Project: c.scope == clients.Project, Config: c.config,
		Entries: []string{hash}, After: ledger.Hash(text), Existed: c.file.Exists, Whole: true,
	}
	state, err := c.state()
	if c.record == nil || state == entryAbsent || err != nil {
		return record, false, err
	}
	// Another entry in place of ours. If somebody else has changed the file since, what was
	// before is not to be given back.
	record.Existed = c.record.Existed
	record.Whole = c.record.Whole && ledger.Hash(c.file.Text) == c.record.After
	return record, true, nil
}

// restoreRecord restores the record of a file that was not written.
func restoreRecord(led ledger.Ledger, path string, old *ledger.Record) error {
	if old == nil {
		return led.Forget(path)
	}
	return led.Done(*old)
}

// afterConnect describes what was written, and what is left to do.
func afterConnect(e *command.Env, c *connection, before clientfile.File, aside []string) string {
	var b strings.Builder
	if c.gateway.URL != "" {
		fmt.Fprintf(&b, "wrote %s: %s reaches the gateway at %s\n", e.Tilde(c.path), c.client.Name, c.gateway.URL)
	} else {
		fmt.Fprintf(&b, "wrote %s: %s starts 'signalbox attach", e.Tilde(c.path), c.client.Name)
		if c.profile != "" {
			b.WriteString(" --profile " + c.profile)
		}
		b.WriteString("'")
		if c.why != "" {
			b.WriteString(", because " + c.why)
		}
		b.WriteString("\n")
	}
	if left := notImported(e, c, before.Text, aside); left != "" {
		b.WriteString(left)
	}
	if c.gateway.URL != "" && !c.running {
		fmt.Fprintf(&b, "no gateway is running: start it with 'signalbox serve --config %s'\n", e.ShellPath(c.config))
	}
	b.WriteString(needs(c.client) + "\n")
	return b.String()
}

// needs returns what a client needs until it uses a changed file.
func needs(c clients.Client) string {
	switch c.After.Value {
	case clients.Nothing:
		return c.Name + " reads the file again by itself"
	case clients.Reload:
		return "reload the servers in " + c.Name
	case clients.Restart:
		return "restart " + c.Name
	default:
		return "restart " + c.Name + " if it does not notice the change"
	}
}

// notImported describes the other servers of the client.
func notImported(e *command.Env, c *connection, text []byte, aside []string) string {
	result, err := imports.Read(foreignSource(e, c), text)
	own, ownErr := edit.ServersOf(e, c.config)
	if err != nil || ownErr != nil {
		return "" // the file has been written
	}
	missing, both := compare(e, result.Servers, own)
	var b strings.Builder
	if missing > 0 {
		fmt.Fprintf(&b, "%s not in the configuration: 'signalbox import --from %s'\n", areLeft(missing), c.client.ID)
	}
	if both > 0 && len(aside) == 0 {
		fmt.Fprintf(&b, "%s also in the configuration: with --move, %s does not use both\n", areLeft(both), c.client.Name)
	}
	return b.String()
}

func areLeft(n int) string {
	if n == 1 {
		return "1 server of the file is"
	}
	return fmt.Sprintf("%d servers of the file are", n)
}

// compare returns the numbers of enabled servers that a configuration does not have, and that
// it has.
func compare(e *command.Env, servers, own []imports.Server) (missing, both int) {
	for i := range servers {
		switch {
		case servers[i].Disabled:
		case slices.ContainsFunc(own, func(other imports.Server) bool { return imports.IsSame(&servers[i], &other, e.LookupEnv) }):
			both++
		default:
			missing++
		}
	}
	return missing, both
}
