// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/envfile"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

const secretHelp = `
Secrets are in the file secrets.env in the folder of the configuration, one NAME=value per
line, readable by its user only. ${NAME} in the configuration takes a value from the
environment, and if it is not set there, or empty, from this file.`

func newSecret(e *env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Set, list or remove the secrets of a configuration",
		Long: `Set, list or remove the secrets of a configuration.
` + secretHelp,
		Args: knownCommand,
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
		RunE: func(cmd *cobra.Command, args []string) error { return e.setSecret(cmd.Context(), file, args) },
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the names of the secrets, and the servers that use them",
		Long: `List the names of the secrets and the servers that use them, and the variables that are
missing. No value is printed.
` + secretHelp,
		Args: argsBetween(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error { return e.listSecrets(file) },
	}
	remove := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a secret",
		Long: `Remove a secret from the file. The value is not kept.
` + secretHelp,
		Args: argsBetween(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return e.removeSecret(cmd.Context(), file, args[0]) },
	}
	for _, c := range []*cobra.Command{set, list, remove} {
		configFlag(c, &file)
	}
	cmd.AddCommand(set, list, remove)
	cmd.SuggestionsMinimumDistance = 2 // as for the root
	return cmd
}

// secretFile is the file with secrets of a configuration.
type secretFile struct {
	path   string
	config configedit.File // empty if the file does not exist
}

func (e *env) secretFile(flag string) (*secretFile, error) {
	src := e.source(flag)
	if !src.hasFile() {
		return nil, usagef("%s; secrets belong to a configuration: name it with --config", e.nothingFound())
	}
	s := secretsOf(configedit.File{Name: src.path})
	switch file, err := safefile.Read(src.path, configedit.MaxSize); {
	case err == nil:
		s.config.Text = file.Text
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	return &s, nil
}

// secretsOf returns the file with secrets of a configuration.
func secretsOf(file configedit.File) secretFile {
	return secretFile{config.SecretsFile(file.Name), file}
}

// maxSecrets bounds the size of the file, as for config.Parse.
const maxSecrets = 1 << 20

// read reads the file, and checks that it can be used.
func (s *secretFile) read() (*safefile.File, []envfile.Variable, error) {
	if problem, hint := config.CheckSecrets(s.path); problem != "" {
		if hint != "" {
			hint = " (" + hint + ")"
		}
		return nil, nil, fmt.Errorf("%s is not used: %s%s", s.path, problem, hint)
	}
	file, err := safefile.Read(s.path, maxSecrets)
	if err != nil {
		return nil, nil, err
	}
	vars, mistakes := envfile.Parse(string(file.Text))
	var problems config.Problems
	for _, m := range mistakes {
		problems = append(problems, config.Problem{File: s.path, Line: m.Line, Column: m.Column, Message: "the line " + m.Message, Hint: m.Hint})
	}
	if problems != nil {
		return nil, nil, problems
	}
	return file, vars, nil
}

// users returns the servers that need a variable, and whether there is another reference to
// it.
func (s *secretFile) users(name string) (servers []string, others bool) {
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
func (s *secretFile) usersText(name string) string {
	servers, others := s.users(name)
	if others {
		servers = append(servers, "the gateway")
	}
	return strings.Join(servers, ", ")
}

func checkSecretName(name string) error {
	valid := func(i int, c byte) bool {
		return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9'
	}
	for i := range len(name) {
		if !valid(i, name[i]) {
			// Not the text: it may be NAME=value.
			return usagef("the name has characters other than letters, digits and _, so that ${NAME} cannot refer to it")
		}
	}
	if name == "" {
		return usagef("the name is empty")
	}
	return nil
}

func (e *env) setSecret(ctx context.Context, flag string, args []string) error {
	switch {
	case len(args) == 2 && args[1] != "-" || len(args) > 2:
		return usagef("the value is not an argument, which other users and the history of the shell would have; it is asked for, or read from standard input with -")
	case len(args) == 0:
		return usagef("want a NAME")
	}
	name := args[0]
	if err := checkSecretName(name); err != nil {
		return err
	}
	s, err := e.secretFile(flag)
	if err != nil {
		return err
	}
	// Before the question.
	if _, _, err := s.read(); err != nil {
		return err
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	value, err := e.secretValue(ctx, name, len(args) == 2)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s is set", e.tilde(s.path), name)
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
	return e.changeSecrets(ctx, s, text, func(old string) (string, error) { return envfile.Set(old, name, value) })
}

// shortSecret is the length from which internal/redact removes a text.
const shortSecret = 8

// secretValue returns the value that is typed, or standard input.
func (e *env) secretValue(ctx context.Context, name string, piped bool) (string, error) {
	var value string
	var err error
	switch {
	case piped:
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(e.Stdin, maxSecrets+1)); len(data) > maxSecrets {
			return "", errors.New("standard input is larger than 1 MiB; is it the right text?")
		}
		value = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	case !e.Terminal(e.Stdin):
		return "", fmt.Errorf("standard input is not a terminal (to read the value from it, write 'signalbox secret set %s -')", name)
	default:
		fmt.Fprintf(e.Stderr, "value of %s (not shown): ", name)
		value, err = readHidden(ctx, e.Stdin)
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

// readHidden reads a line from a terminal without an echo. As with readLine, the read
// continues in the background if ctx ends first; the terminal is as before then.
func readHidden(ctx context.Context, r io.Reader) (string, error) {
	file, ok := r.(*os.File)
	if !ok {
		return readLine(ctx, r)
	}
	fd := int(file.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	type answer struct {
		text []byte
		err  error
	}
	read := make(chan answer, 1)
	// Ends with the line, the input or the process.
	go func() {
		text, err := term.ReadPassword(fd)
		read <- answer{text, err}
	}()
	select {
	case a := <-read:
		return string(a.text), a.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

func (e *env) removeSecret(ctx context.Context, flag, name string) error {
	if err := checkSecretName(name); err != nil {
		return err
	}
	s, err := e.secretFile(flag)
	if err != nil {
		return err
	}
	_, vars, err := s.read()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(vars, func(v envfile.Variable) bool { return v.Name == name }) {
		return fmt.Errorf("%s has no %s", s.path, name)
	}
	text := fmt.Sprintf("%s: %s is removed\n", e.tilde(s.path), name)
	if value, _ := e.LookupEnv(name); value == "" && s.needs(name) {
		text += fmt.Sprintf("still used by %s: the configuration cannot be loaded until it is set\n", s.usersText(name))
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	return e.changeSecrets(ctx, s, text, func(old string) (string, error) { return envfile.Remove(old, name) })
}

// needs reports whether the configuration cannot be loaded without a variable.
func (s *secretFile) needs(name string) bool {
	return slices.ContainsFunc(s.config.References(), func(r configedit.Reference) bool { return r.Name == name && !r.Optional })
}

// changeSecrets writes the file, prints a text, and waits for the running gateways.
func (e *env) changeSecrets(ctx context.Context, s *secretFile, text string, change func(string) (string, error)) error {
	folder, err := e.stateFolder(s.config.Name)
	if err != nil {
		folder = ""
	}
	lock := e.secretLock(s.path)
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
		return e.printText(e.Stdout, e.tilde(s.path)+": nothing to change\n")
	}
	if err := e.printText(e.Stdout, text); err != nil {
		return err
	}
	e.noteRepository(s.path)
	if folder == "" {
		return nil // no gateway can be reached
	}
	return e.printReloads(ctx, socketsIn(folder), written, func(status *signalbox.Status) bool { return status.Reloaded.After(written) })
}

// secretLock returns the lock for a file with secrets, which several configurations of its
// folder may have in common, or "".
func (e *env) secretLock(path string) string {
	folder, err := e.stateFolder(path)
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "edit.lock")
}

// maxTries bounds how often a file is read again that others change.
const maxTries = 100

// write changes the file, and reports whether there was anything to change.
func (s *secretFile) write(ctx context.Context, lock string, change func(string) (string, error)) (bool, error) {
	file, _, err := s.read()
	if err != nil {
		return false, err
	}
	changed, err := change(string(file.Text))
	switch {
	case errors.Is(err, envfile.ErrValue):
		return false, fmt.Errorf("%s is unchanged: %w (it has a NUL, or quotes of all kinds; set it in the environment instead)", s.path, err)
	case err != nil:
		return false, fmt.Errorf("%s: %w", s.path, err)
	case changed == string(file.Text):
		return false, nil
	}
	return true, file.Replace(ctx, []byte(changed), lock)
}

func (e *env) listSecrets(flag string) error {
	s, err := e.secretFile(flag)
	if err != nil {
		return err
	}
	_, vars, err := s.read()
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
	var b strings.Builder
	if len(names) == 0 {
		fmt.Fprintf(&b, "no secrets in %s\n", e.tilde(s.path))
	} else {
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tUSED BY")
		for _, name := range names {
			users := s.usersText(name)
			if users == "" {
				users = "-"
			}
			if value, _ := e.LookupEnv(name); value != "" {
				users += " (the environment has it, too, and its value is used)"
			}
			fmt.Fprintln(w, name+"\t"+users)
		}
		_ = w.Flush() // to memory
	}
	var missing []string
	for _, r := range s.config.References() {
		if _, set := e.LookupEnv(r.Name); set || r.Optional || slices.Contains(names, r.Name) || slices.Contains(missing, r.Name) {
			continue
		}
		missing = append(missing, r.Name)
		fmt.Fprintf(&b, "missing: %s, used by %s (set it with 'signalbox secret set %s')\n", r.Name, s.usersText(r.Name), r.Name)
	}
	return e.printText(e.Stdout, b.String())
}

// noteSecrets prints notes on the literal secrets of an entry that was added.
func (e *env) noteSecrets(name string, entry configedit.Entry) {
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
		fmt.Fprintln(e.Stderr, "note: "+visibleLine(n.Text))
	}
}

// noteRepository prints a note if a file is in a Git repository that does not ignore it, as
// far as the lines of .gitignore tell that name the file or its extension.
func (e *env) noteRepository(file string) {
	file, err := filepath.Abs(file)
	if err != nil {
		return
	}
	for folder := filepath.Dir(file); ; folder = filepath.Dir(folder) {
		ignored, _ := readUpTo(filepath.Join(folder, ".gitignore"), 1<<20)
		for line := range strings.Lines(string(ignored)) {
			if matches, _ := path.Match(strings.TrimPrefix(strings.TrimSpace(line), "/"), filepath.Base(file)); matches {
				return
			}
		}
		if _, err := os.Stat(filepath.Join(folder, ".git")); err == nil {
			fmt.Fprintf(e.Stderr, "note: %s is in a Git repository (add %s to its .gitignore)\n", e.tilde(file), filepath.Base(file))
			return
		}
		if folder == filepath.Dir(folder) {
			return
		}
	}
}
