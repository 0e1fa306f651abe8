// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package add

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

type importFlags struct {
	from string // the ID of a client
	into string
	yes  bool
	keep bool // secrets
}

// NewImport returns the command that adds the servers of MCP clients to a configuration file.
func NewImport(e *command.Env) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import [FILE | -]",
		Short: "Import the servers of MCP clients into the configuration file",
		Long: `Import the servers that MCP clients have in their files, into one configuration file. What
was found is shown first, and is written only after a question. Credentials that are
written out move to secrets.env in the folder of the configuration. No other file is changed.

Without FILE, the files of all known clients are read, of the user and of the project in the
working directory. FILE is a file of any client. With -, standard input is read: a map of
servers, one server, a command such as "claude mcp add ...", or an address.

Equal servers of several clients are imported once. Different servers with one name get the
client as a suffix. What cannot be imported is reported with its cause and a cure.`,
		Example: `  signalbox import
  signalbox import --from cursor --yes
  signalbox import ~/work/.vscode/mcp.json --into team.yaml`,
		Args: command.ArgsBetween(0, 1, "one FILE, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return importServers(cmd.Context(), e, f, args)
		},
	}
	command.AddWord(cmd, &f.from, "from", "", "read the files of one `CLIENT`: "+strings.Join(clients.IDs(), ", ")+"; with FILE, read it as one of this client")
	command.AddWord(cmd, &f.into, "into", "", "configuration `FILE` to write (default: signalbox.yaml or signalbox.json in the working directory if there is one, or else the user's signalbox.yaml)")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "write without a question")
	cmd.Flags().BoolVar(&f.keep, "keep-secrets", false, "copy credentials into the configuration file, instead of secrets.env")
	return cmd
}

// found is what import has read.
type found struct {
	results []*imports.Result
	// counts has the number of servers of each client, in the order of the files; empty are
	// the clients with files but without servers.
	counts []string
	empty  []string
	client string // the first one with servers that can be connected, or ""
	// failed are the files that cannot be read, each in one line.
	failed []string
	files  []string
}

func importServers(ctx context.Context, e *command.Env, f importFlags, args []string) error {
	target, err := importTarget(e, f.into)
	if err != nil {
		return err
	}
	in, err := readForeign(e, f.from, args)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(in.files, func(name string) bool { return source.FileID(name) == source.FileID(target) }) {
		return command.Usagef("%s would be written and read; name another file with --into", target)
	}
	out := &importOutput{target: target}
	if err := out.read(); err != nil {
		return err
	}
	servers, known := newServers(in.results, out.before, out.lookup(e.LookupEnv))
	if f.keep {
		imports.KeepSecrets(servers)
	} else if err := out.moveSecrets(servers, e.LookupEnv); err != nil {
		return err
	}
	if err := e.PrintText(e.Stdout, importTable(e, in, servers, known)); err != nil || len(servers) == 0 {
		return err
	}
	if out.after, err = imports.AddTo(out.before, servers); err != nil {
		return err
	}
	if err := edit.Check(e, out.before, out.after); err != nil {
		return err
	}
	if !f.yes && e.Terminal(e.Stdin) {
		if err := e.PrintText(e.Stdout, willWrite(e, out, len(servers))); err != nil {
			return err
		}
	}
	if ok, err := e.Confirm(ctx, f.yes, "Proceed?"); !ok {
		return err
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	if err := writeImported(ctx, e, out); err != nil {
		return err
	}
	if err := edit.PrintApplied(ctx, e, out.after, servers[len(servers)-1].Name, out.written); err != nil {
		return err
	}
	return e.PrintText(e.Stdout, importNext(e, f, in, out, servers))
}

// readTarget reads the file to write. Its folder is created when it is written.
func readTarget(path string) (*safefile.File, error) {
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return &safefile.File{}, nil
	}
	return safefile.Read(path, configedit.MaxSize)
}

// importTarget returns the file to write: the one in the working directory, or else the
// user's. Files of other programs that serve would use are not written to.
func importTarget(e *command.Env, flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(e.Path(flag))
	}
	for _, name := range []string{edit.FileName, "signalbox.json"} {
		if info, err := os.Stat(e.Path(name)); err == nil && !info.IsDir() {
			return filepath.Abs(e.Path(name))
		}
	}
	if path := source.UserConfig(e); path != "" {
		return path, nil
	}
	return filepath.Abs(e.Path(edit.FileName))
}

// readForeign reads what the arguments name.
func readForeign(e *command.Env, from string, args []string) (*found, error) {
	client, ok := clients.ByID(from)
	if from != "" && !ok {
		return nil, command.Usagef("unknown client %q; known are %s", from, strings.Join(clients.IDs(), ", "))
	}
	p := edit.Places(e)
	switch {
	case len(args) == 1 && args[0] == "-":
		return readPasted(e, client, p)
	case len(args) == 1:
		return readForeignFile(e, args[0], client, p)
	}
	var all []clients.Found
	if from == "" {
		all = p.Find()
	} else {
		all = p.FindOf(client)
	}
	in := &found{}
	for _, file := range all {
		in.read(file, p.Home)
	}
	if len(all) == 0 {
		if from != "" {
			return nil, fmt.Errorf("no file of %s is here: %s", client.Name, strings.Join(edit.PlacesOf(client, p), ", "))
		}
		return nil, errors.New("no file of a known client is here; name a FILE, or paste the servers into 'signalbox import -'")
	}
	return in, nil
}

// readPasted reads standard input.
func readPasted(e *command.Env, client clients.Client, p clients.Places) (*found, error) {
	text, err := io.ReadAll(io.LimitReader(e.Stdin, configedit.MaxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read standard input: %w", err)
	case len(text) > configedit.MaxSize:
		return nil, errors.New("standard input is larger than 1 MiB; is it the right text?")
	}
	result, err := imports.Read(imports.Source{Client: client.ID, Dialect: client.Dialect, Home: p.Home, Exists: edit.IsFile}, text)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return &found{results: []*imports.Result{result}}, nil
}

// readForeignFile reads a file that the user has named. Its place may show which client it
// belongs to.
func readForeignFile(e *command.Env, name string, client clients.Client, p clients.Places) (*found, error) {
	path, err := filepath.Abs(e.Path(name))
	if err != nil {
		return nil, err
	}
	file := clients.Found{Client: client, Path: path, Project: filepath.Dir(path)}
	for _, c := range clients.All() {
		if client.ID != "" && c.ID != client.ID {
			continue
		}
		for _, f := range c.Files {
			place := string(filepath.Separator) + filepath.FromSlash(f.Path)
			if project, ok := strings.CutSuffix(path, place); ok && f.Scope == clients.Project && file.File.Path == "" {
				file = clients.Found{Client: c, File: f, Path: path, Project: project}
			} else if p.Path(f) == path {
				file = clients.Found{Client: c, File: f, Path: path}
			}
		}
	}
	in := &found{}
	in.read(file, p.Home)
	if len(in.failed) > 0 {
		return nil, errors.New(in.failed[0])
	}
	return in, nil
}

// read reads one file.
func (in *found) read(file clients.Found, home string) {
	in.files = append(in.files, file.Path)
	text, err := edit.ReadUpTo(file.Path, configedit.MaxForeign)
	if err != nil {
		in.failed = append(in.failed, err.Error())
		return
	}
	result, err := imports.Read(imports.Source{
		File: file.Path, Client: file.Client.ID, Dialect: file.Client.Dialect, Project: file.Project, Home: home, Exists: edit.IsFile,
	}, text)
	if err != nil {
		in.failed = append(in.failed, err.Error())
		return
	}
	name := file.Client.ID
	if name == "" {
		name = filepath.Base(file.Path)
	}
	if count := len(result.Servers); count > 0 {
		in.counts = append(in.counts, fmt.Sprintf("%s %d", name, count))
		if !file.Client.Ended {
			in.client = cmp.Or(in.client, file.Client.ID)
		}
	} else if !slices.Contains(in.empty, name) {
		in.empty = append(in.empty, name)
	}
	in.results = append(in.results, result)
}

// newServers returns the servers that the file does not have yet, and those that it has.
func newServers(results []*imports.Result, file configedit.File, lookup func(string) (string, bool)) (servers, known []imports.Server) {
	var existing []imports.Server
	var taken []string
	// A file that cannot be read is reported when it is changed.
	if own, err := imports.Read(imports.Source{File: file.Name, Dialect: clients.MCPServers, Project: filepath.Dir(file.Name)}, file.Text); err == nil {
		existing = own.Servers
	}
	for _, s := range existing {
		taken = append(taken, s.Original)
	}
	var rest []*imports.Result
	for _, result := range results {
		left := *result
		left.Servers = nil
		for _, s := range result.Servers {
			at := slices.IndexFunc(existing, func(own imports.Server) bool { return imports.IsSame(&s, &own, lookup) })
			if at < 0 {
				left.Servers = append(left.Servers, s)
				continue
			}
			s.Name = existing[at].Original
			known = append(known, s)
		}
		rest = append(rest, &left)
	}
	return imports.Merge(rest, taken, lookup), imports.Merge([]*imports.Result{{Servers: known}}, nil, lookup)
}

// importTable describes what was found, and what would be written.
func importTable(e *command.Env, in *found, servers, known []imports.Server) string {
	var b strings.Builder
	if len(in.counts)+len(in.empty) > 0 {
		b.WriteString("found  " + strings.Join(in.counts, ", "))
		if len(in.empty) > 0 {
			b.WriteString("  (" + strings.Join(in.empty, ", ") + ": no servers)")
		}
		b.WriteString("\n")
	}
	rows := importRows(e, servers, known, true)
	below := slices.ContainsFunc(rows, func(row string) bool { return utf8.RuneCountInString(row) > maxImportRow })
	if below {
		rows = importRows(e, servers, known, false)
	}
	for i, row := range rows {
		b.WriteString(row + "\n")
		if i >= len(servers) {
			continue
		}
		if remark := shortNotes(&servers[i]); below && remark != "" {
			b.WriteString("     " + remark + "\n")
		}
		for _, n := range servers[i].Notes {
			if !n.Short {
				b.WriteString("     " + n.Text + "\n")
			}
		}
	}
	for _, result := range in.results {
		for _, n := range result.Notes {
			b.WriteString(" - " + placeOf(e, result.Source.File, n.Line) + n.Text + "\n")
		}
	}
	for _, failed := range in.failed {
		b.WriteString(" ! " + e.Tilde(failed) + "\n")
	}
	if len(servers) == 0 {
		b.WriteString("nothing to import\n")
	}
	return b.String()
}

// maxImportRow is the width beyond which the remarks are below the rows.
const maxImportRow = 100

// importRows returns a row for each server, those to write first.
func importRows(e *command.Env, servers, known []imports.Server, remarks bool) []string {
	var rows [][]string
	row := func(mark string, s *imports.Server, remark string) {
		words := strings.Fields(output.VisibleLine(s.Summary()))
		for i := range words {
			words[i] = e.Tilde(words[i])
		}
		rows = append(rows, []string{mark + " " + s.Name, strings.Join(words, " "), originsOf(e, s), remark})
	}
	for i := range servers {
		remark := ""
		if remarks {
			remark = shortNotes(&servers[i])
		}
		row("+", &servers[i], remark)
	}
	for i := range known {
		row("=", &known[i], "already configured")
	}
	var table bytes.Buffer
	output.WriteColumns(&table, rows)
	var lines []string
	for line := range strings.Lines(table.String()) {
		lines = append(lines, " "+strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// shortNotes returns what is remarkable about a server in a few words.
func shortNotes(s *imports.Server) string {
	var texts []string
	for _, n := range s.Notes {
		if n.Short {
			texts = append(texts, n.Text)
		}
	}
	if s.Disabled && !slices.ContainsFunc(s.Notes, func(n imports.Note) bool { return strings.Contains(n.Text, "disabled") }) {
		texts = append(texts, "disabled")
	}
	return strings.Join(texts, "; ")
}

// originsOf returns the clients of a server, or its files if the clients are unknown.
func originsOf(e *command.Env, s *imports.Server) string {
	var names []string
	for _, o := range s.Origins {
		name := o.Client
		if name == "" {
			name = e.Tilde(o.String())
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 1 && !s.Differs {
		return strings.Join(names, ", ") + " (identical)"
	}
	return strings.Join(names, ", ")
}

// placeOf returns the beginning of a note.
func placeOf(e *command.Env, file string, line int) string {
	switch {
	case file == "":
		return ""
	case line == 0:
		return e.Tilde(file) + ": "
	default:
		return fmt.Sprintf("%s:%d: ", e.Tilde(file), line)
	}
}
