// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secrets has the command secret, for the values of ${...} in a configuration that
// are kept in a file beside it.
package secrets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/envfile"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

const secretHelp = `
Secrets are in the file secrets.env in the folder of the configuration, one NAME=value per
line, readable by its user only. ${NAME} in the configuration takes a value from the
environment, and if it is not set there, or empty, from this file.`

// New returns the command that sets, lists and removes secrets.
func New(e *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Set, list or remove the secrets of a configuration",
		Long: `Set, list or remove the secrets of a configuration.
` + secretHelp,
		Args: command.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	set := &cobra.Command{
		Use:   "set NAME [-]",
		Short: "Set a secret",
		Long: `Set a secret. Its value is asked for without an echo; with -, it is standard input up to
the end, without the last line break. It is never an argument, which other users and the
history of the shell would have.

Running gateways that serve the configuration restart the servers that use the secret.
All others keep their processes and sessions.
` + secretHelp,
		Example: `  signalbox secret set GITHUB_TOKEN
  pass show github | signalbox secret set GITHUB_TOKEN -`,
		RunE: func(cmd *cobra.Command, args []string) error { return setSecret(cmd.Context(), e, file, args) },
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the names of the secrets, and the servers that use them",
		Long: `List the names of the secrets and the servers that use them, and the variables that are
missing. No value is printed.
` + secretHelp,
		Args: command.ArgsBetween(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error { return listSecrets(e, file) },
	}
	remove := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a secret",
		Long: `Remove a secret from the file. The value is not kept.
` + secretHelp,
		Args: command.ArgsBetween(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return removeSecret(cmd.Context(), e, file, args[0]) },
	}
	for _, c := range []*cobra.Command{set, list, remove} {
		source.Flag(c, &file)
	}
	cmd.AddCommand(set, list, remove)
	cmd.SuggestionsMinimumDistance = 2 // as for the root
	return cmd
}

// File is the file with secrets of a configuration.
type File struct {
	Path   string
	config configedit.File // empty if the file does not exist
}

func secretFile(e *command.Env, flag string) (*File, error) {
	src, err := source.FindFile(e, flag)
	if err != nil {
		return nil, err
	}
	s := FileOf(configedit.File{Name: src.Path})
	switch file, err := safefile.Read(src.Path, configedit.MaxSize); {
	case err == nil:
		s.config.Text = file.Text
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	return &s, nil
}

// FileOf returns the file with secrets of a configuration.
func FileOf(file configedit.File) File {
	return File{config.SecretsFile(file.Name), file}
}

// MaxSize bounds the size of the file, as for config.Parse.
const MaxSize = 1 << 20

// Read reads the file, and checks that it can be used.
func (s *File) Read() (*safefile.File, []envfile.Variable, error) {
	if problem, hint := config.CheckSecrets(s.Path); problem != "" {
		if hint != "" {
			hint = " (" + hint + ")"
		}
		return nil, nil, fmt.Errorf("%s is not used: %s%s", s.Path, problem, hint)
	}
	file, err := safefile.Read(s.Path, MaxSize)
	if err != nil {
		return nil, nil, err
	}
	vars, mistakes := envfile.Parse(string(file.Text))
	var problems config.Problems
	for _, m := range mistakes {
		problems = append(problems, config.Problem{File: s.Path, Line: m.Line, Column: m.Column, Message: "the line " + m.Message, Hint: m.Hint})
	}
	if problems != nil {
		return nil, nil, problems
	}
	return file, vars, nil
}

// users returns the servers that need a variable, and whether there is another reference to
// it.
func (s *File) users(name string) (servers []string, others bool) {
	for _, r := range s.config.References() {
		switch {
		case r.Name != name:
		case r.Server == "":
			others = true
		default:
			servers = append(servers, r.Server)
		}
	}
	return servers, others
}

// usersText describes what uses a variable.
func (s *File) usersText(name string) string {
	servers, others := s.users(name)
	if others {
		servers = append(servers, "the gateway")
	}
	return strings.Join(servers, ", ")
}

func checkSecretName(name string) error {
	switch {
	case name == "":
		return command.Usagef("the name is empty")
	case !valid.IsVariable(name):
		// Not the text: it may be NAME=value.
		return command.Usagef("the name has characters other than letters, digits and _, so that ${NAME} cannot refer to it")
	}
	return nil
}

func setSecret(ctx context.Context, e *command.Env, flag string, args []string) error {
	switch {
	case len(args) == 2 && args[1] != "-" || len(args) > 2:
		return command.Usagef("the value is not an argument, which other users and the history of the shell would have; it is asked for, or read from standard input with -")
	case len(args) == 0:
		return command.Usagef("want a NAME")
	}
	name := args[0]
	if err := checkSecretName(name); err != nil {
		return err
	}
	s, err := secretFile(e, flag)
	if err != nil {
		return err
	}
	// Before the question.
	if _, _, err := s.Read(); err != nil {
		return err
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	value, err := secretValue(ctx, e, name, len(args) == 2)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s is set", e.Tilde(s.Path), name)
	if users := s.usersText(name); users != "" {
		text += ", used by " + users
	} else {
		text += "; write ${" + name + "} in the configuration to use it"
	}
	text += "\n"
	if value, _ := e.LookupEnv(name); value != "" {
		text += "the environment has " + name + ", too, and its value is used where it is set\n"
	}
	if len(value) < shortSecret {
		text += fmt.Sprintf("it has fewer than %d characters, and is not removed from logs: it may be a part of ordinary words\n", shortSecret)
	}
	return changeSecrets(ctx, e, s, text, func(old string) (string, error) { return envfile.Set(old, name, value) })
}

// shortSecret is the length from which internal/redact removes a text.
const shortSecret = 8

// secretValue returns the value that is typed, or standard input.
func secretValue(ctx context.Context, e *command.Env, name string, piped bool) (string, error) {
	var value string
	var err error
	switch {
	case piped:
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(e.Stdin, MaxSize+1)); len(data) > MaxSize {
			return "", errors.New("standard input is larger than 1 MiB; is it the right text?")
		}
		value = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	case !e.Terminal(e.Stdin):
		return "", fmt.Errorf("standard input is not a terminal (to read the value from it, write 'signalbox secret set %s -')", name)
	default:
		fmt.Fprintf(e.Stderr, "value of %s (not shown): ", name)
		value, err = command.ReadHidden(ctx, e.Stdin)
		fmt.Fprintln(e.Stderr)
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read the value: %w", err)
	case value == "":
		return "", errors.New("the value is empty, and nothing was written")
	}
	return value, nil
}

func removeSecret(ctx context.Context, e *command.Env, flag, name string) error {
	if err := checkSecretName(name); err != nil {
		return err
	}
	s, err := secretFile(e, flag)
	if err != nil {
		return err
	}
	_, vars, err := s.Read()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(vars, func(v envfile.Variable) bool { return v.Name == name }) {
		return fmt.Errorf("%s has no %s", s.Path, name)
	}
	text := fmt.Sprintf("%s: %s is removed\n", e.Tilde(s.Path), name)
	if value, _ := e.LookupEnv(name); value == "" && s.needs(name) {
		text += fmt.Sprintf("still used by %s: the configuration cannot be loaded until it is set\n", s.usersText(name))
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	return changeSecrets(ctx, e, s, text, func(old string) (string, error) { return envfile.Remove(old, name) })
}

// needs reports whether the configuration cannot be loaded without a variable.
func (s *File) needs(name string) bool {
	return slices.ContainsFunc(s.config.References(), func(r configedit.Reference) bool { return r.Name == name && !r.Optional })
}

// changeSecrets writes the file, prints a text, and waits for the running gateways.
func changeSecrets(ctx context.Context, e *command.Env, s *File, text string, change func(string) (string, error)) error {
	lock := source.EditLock(e, s.Path) // several configurations of the folder may have the file in common
	written := time.Now()
	isChanged, err := s.write(ctx, lock, change)
	// Another process may have set another secret. Nothing was shown that has to be shown again.
	for tries := 0; errors.Is(err, safefile.ErrChanged) && tries < maxTries && ctx.Err() == nil; tries++ {
		isChanged, err = s.write(ctx, lock, change)
	}
	switch {
	case err != nil:
		return err
	case !isChanged:
		return e.PrintText(e.Stdout, e.Tilde(s.Path)+": nothing to change\n")
	}
	if err := e.PrintText(e.Stdout, text); err != nil {
		return err
	}
	NoteRepository(e, s.Path)
	return control.PrintReloads(ctx, e, s.config.Name, written, func(status *signalbox.Status) bool { return status.Reloaded.After(written) })
}

// maxTries bounds how often a file is read again that others change.
const maxTries = 100

// write changes the file, and reports whether there was anything to change.
func (s *File) write(ctx context.Context, lock string, change func(string) (string, error)) (bool, error) {
	file, _, err := s.Read()
	if err != nil {
		return false, err
	}
	changed, err := change(string(file.Text))
	switch {
	case errors.Is(err, envfile.ErrValue):
		return false, fmt.Errorf("%s is unchanged: %w (it has a NUL, or quotes of all kinds; set it in the environment instead)", s.Path, err)
	case err != nil:
		return false, fmt.Errorf("%s: %w", s.Path, err)
	case changed == string(file.Text):
		return false, nil
	}
	return true, file.Replace(ctx, []byte(changed), lock)
}

func listSecrets(e *command.Env, flag string) error {
	s, err := secretFile(e, flag)
	if err != nil {
		return err
	}
	_, vars, err := s.Read()
	if err != nil {
		return err
	}
	var names []string
	for _, v := range vars {
		if !slices.Contains(names, v.Name) {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	var b bytes.Buffer
	if len(names) == 0 {
		fmt.Fprintf(&b, "no secrets in %s\n", e.Tilde(s.Path))
	} else {
		rows := [][]string{{"NAME", "USED BY"}}
		for _, name := range names {
			users := cmp.Or(s.usersText(name), "-")
			if value, _ := e.LookupEnv(name); value != "" {
				users += " (the environment has it, too, and its value is used)"
			}
			rows = append(rows, []string{name, users})
		}
		output.WriteColumns(&b, rows)
	}
	var missing []string
	for _, r := range s.config.References() {
		if _, set := e.LookupEnv(r.Name); set || r.Optional || slices.Contains(names, r.Name) || slices.Contains(missing, r.Name) {
			continue
		}
		missing = append(missing, r.Name)
		fmt.Fprintf(&b, "missing: %s, used by %s (set it with 'signalbox secret set %s')\n", r.Name, s.usersText(r.Name), r.Name)
	}
	return e.PrintText(e.Stdout, b.String())
}

// NoteMissing prints notes on the literal secrets of an entry that was added.
func NoteMissing(e *command.Env, name string, entry configedit.Entry) {
	server := imports.Server{Name: name}
	pairsOf := func(value any) (pairs []imports.Pair) {
		fields, _ := value.(configedit.Entry)
		for _, f := range fields {
			text, _ := f.Value.(string)
			pairs = append(pairs, imports.Pair{Name: f.Key, Value: text})
		}
		return pairs
	}
	for _, f := range entry {
		switch f.Key {
		case "args":
			server.Args, _ = f.Value.([]string)
		case "url":
			server.URL, _ = f.Value.(string)
		case "env":
			server.Env = pairsOf(f.Value)
		case "headers":
			server.Headers = pairsOf(f.Value)
		}
	}
	servers := []imports.Server{server}
	imports.KeepSecrets(servers)
	for _, n := range servers[0].Notes {
		fmt.Fprintln(e.Stderr, "note: "+output.VisibleLine(n.Text))
	}
}

// NoteRepository prints a note if a file is in a Git repository that does not ignore it, as
// far as the lines of .gitignore tell that name the file or its extension.
func NoteRepository(e *command.Env, file string) {
	file, err := filepath.Abs(file)
	if err != nil {
		return
	}
	for folder := filepath.Dir(file); ; folder = filepath.Dir(folder) {
		ignored, _ := edit.ReadUpTo(filepath.Join(folder, ".gitignore"), 1<<20)
		for line := range strings.Lines(string(ignored)) {
			if matches, _ := path.Match(strings.TrimPrefix(strings.TrimSpace(line), "/"), filepath.Base(file)); matches {
				return
			}
		}
		if _, err := os.Stat(filepath.Join(folder, ".git")); err == nil {
			fmt.Fprintf(e.Stderr, "note: %s is in a Git repository (add %s to its .gitignore)\n", e.Tilde(file), filepath.Base(file))
			return
		}
		if folder == filepath.Dir(folder) {
			return
		}
	}
}
