// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package edit changes a configuration file of a user: the file is read, changed, checked,
// shown as a difference without secrets, and replaced. Then the gateways that serve it are
// watched until they have applied the change. The commands remove, rename, enable and
// disable are here; others that change a file use Change.
package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

// Help is what the commands that edit the file have in common, for their help.
const Help = `
The rest of the file stays as it is, with comments, order and style. The difference is
printed, with credentials removed. Running gateways that serve the file apply the change
by the rules for changed files: a new program may wait for 'signalbox reload'.`

// NewRemove returns the command that removes a server from the file.
func NewRemove(e *command.Env) *cobra.Command {
	return newEdit(e, &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a server from the configuration file",
		Long: `Remove a server from the configuration file, also from the servers of profiles. Comments
above its entry stay.
` + Help,
		Args: command.ArgsBetween(1, 1, "one NAME"),
	}, func(f configedit.File, args []string) ([]byte, error) { return f.Remove(args[0]) })
}

// NewRename returns the command that renames a server in the file.
func NewRename(e *command.Env) *cobra.Command {
	return newEdit(e, &cobra.Command{
		Use:   "rename OLD NEW",
		Short: "Rename a server in the configuration file",
		Long: `Rename a server in the configuration file, also in the servers of profiles. Unless it has a
"prefix", the names of its tools and prompts begin with its name, and change with it: also
where a profile includes or excludes them by that beginning.
` + Help,
		Args: command.ArgsBetween(2, 2, "the OLD and the NEW name"),
	}, func(f configedit.File, args []string) ([]byte, error) { return f.Rename(args[0], args[1]) })
}

// NewEnable returns the command that enables a server in the file.
func NewEnable(e *command.Env) *cobra.Command {
	return newEdit(e, &cobra.Command{
		Use:   "enable NAME",
		Short: "Enable a disabled server in the configuration file",
		Long: `Enable a server that is disabled in the configuration file: remove "disabled" from its
entry, or set "enabled" to true if it has that key.
` + Help,
		Args: command.ArgsBetween(1, 1, "one NAME"),
	}, func(f configedit.File, args []string) ([]byte, error) { return f.Enable(args[0]) })
}

// NewDisable returns the command that disables a server in the file.
func NewDisable(e *command.Env) *cobra.Command {
	return newEdit(e, &cobra.Command{
		Use:   "disable NAME",
		Short: "Disable a server in the configuration file",
		Long: `Disable a server in the configuration file, and keep its entry: set "disabled" to true, or
"enabled" to false if the entry has that key.
` + Help,
		Args: command.ArgsBetween(1, 1, "one NAME"),
	}, func(f configedit.File, args []string) ([]byte, error) { return f.Disable(args[0]) })
}

// newEdit completes a command that changes an existing file. The last argument is the name
// of the server after the change.
func newEdit(e *command.Env, cmd *cobra.Command, change func(f configedit.File, args []string) ([]byte, error)) *cobra.Command {
	var file string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return Change(cmd.Context(), e, file, args[len(args)-1], func(f configedit.File) ([]byte, error) { return change(f, args) })
	}
	source.Flag(cmd, &file)
	return cmd
}

// FileName is the name of a file that add creates.
const FileName = "signalbox.yaml"

// Change changes an existing configuration file, and prints the difference and what gateways
// make of it. name is the server that the change is about.
func Change(ctx context.Context, e *command.Env, flag, name string, change func(configedit.File) ([]byte, error)) error {
	return ChangeIf(ctx, e, flag, name, false, nil, change)
}

// ChangeIf is Change with a decision about the changed file before it is written; nil means yes.
// With mayCreate, the file may be a new one.
func ChangeIf(ctx context.Context, e *command.Env, flag, name string, mayCreate bool, decide func(configedit.File) (bool, error), change func(configedit.File) ([]byte, error)) error {
	src, err := source.FindFile(e, flag)
	path := src.Path
	switch {
	case err != nil && mayCreate:
		path = e.Path(FileName)
	case err != nil:
		return err
	}
	// Clients without a configuration are told to add to this file.
	if mayCreate && path == source.UserConfig(e) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
	}
	file, err := safefile.Read(path, configedit.MaxSize)
	switch {
	case errors.Is(err, fs.ErrNotExist) && mayCreate:
		return fmt.Errorf("%w; make the folder of %s first", err, path)
	case err != nil:
		return err
	}
	if !file.Exists && !mayCreate {
		return fmt.Errorf("%s does not exist", path)
	}
	before := configedit.File{Name: path, Text: file.Text}
	text, err := change(before)
	if err != nil {
		return err
	}
	if bytes.Equal(text, file.Text) {
		return e.PrintText(e.Stdout, path+": nothing to change\n")
	}
	after := configedit.File{Name: path, Text: text}
	if err := Check(e, before, after); err != nil {
		return err
	}
	if decide != nil {
		if ok, err := decide(after); !ok {
			return err
		}
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	written := time.Now()
	if err := file.Replace(ctx, text, source.EditLock(e, path)); err != nil {
		return err
	}
	if err := e.PrintText(e.Stdout, redactorOf(before, after).Text(UnifiedDiff(path, file.Text, text))); err != nil {
		return err
	}
	return PrintApplied(ctx, e, after, name, written)
}

// redactorOf returns a Redactor for the credentials in files. References to variables are
// none.
func redactorOf(files ...configedit.File) *redact.Redactor {
	headers := make(http.Header)
	var env, urls, more []string
	isReference := func(text string) bool { return strings.Contains(text, "${") }
	for _, f := range files {
		variables, fields, addresses := f.Literals()
		env, urls = append(env, variables...), append(urls, addresses...)
		servers, err := ownServers(f.Name, f.Text)
		if err == nil { // otherwise a change that is to correct the file
			more = append(more, imports.LiteralSecrets(servers)...)
		}
		for name, values := range fields {
			headers[name] = append(headers[name], values...)
		}
	}
	for name, values := range headers {
		headers[name] = WithEscaped(slices.DeleteFunc(values, isReference))
	}
	for i := range urls {
		urls[i] = reference.ReplaceAllString(urls[i], "")
	}
	return redact.New(headers, WithEscaped(slices.DeleteFunc(env, isReference)), urls...).With(WithEscaped(more)...)
}

// reference matches a reference to a variable.
var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// WithEscaped adds to texts how a file has them in quotes.
func WithEscaped(texts []string) []string {
	for _, text := range texts {
		if escaped := strconv.Quote(text); len(escaped) > len(text)+len(`""`) {
			texts = append(texts, escaped[1:len(escaped)-1])
		}
	}
	return texts
}

// Check returns the problems of a file that it did not have before. A file with other
// problems can be edited: that may be the cure.
func Check(e *command.Env, before, after configedit.File) error {
	found := problems(e, after)
	for _, known := range problems(e, before) {
		found = slices.DeleteFunc(found, isSame(known))
	}
	if len(found) > 0 {
		return fmt.Errorf("%w\n%s is unchanged", found, before.Name)
	}
	return nil
}

// problems returns the problems of a file that it has whatever the values of unset variables
// are: they may be set for the gateway.
func problems(e *command.Env, f configedit.File) config.Problems {
	var found config.Problems
	for i, value := range []string{"localhost", "http://localhost", "1"} {
		_, err := config.Parse(f.Name, f.Text, func(variable string) (string, bool) {
			set, ok := e.LookupEnv(variable)
			if !ok {
				set = value
			}
			return set, true
		})
		problems, _ := errors.AsType[config.Problems](err)
		if i == 0 {
			found = problems
		}
		found = slices.DeleteFunc(found, func(p config.Problem) bool { return !slices.ContainsFunc(problems, isSame(p)) })
	}
	return found
}

// isSame returns a function that reports whether a problem is another one, perhaps at another
// position.
func isSame(p config.Problem) func(config.Problem) bool {
	return func(other config.Problem) bool { return p.Path == other.Path && p.Message == other.Message }
}

// PrintApplied prints what each running gateway makes of a change of a server.
func PrintApplied(ctx context.Context, e *command.Env, file configedit.File, name string, since time.Time) error {
	served := isServed(e, file, name)
	return control.PrintReloads(ctx, e, file.Name, since, func(status *signalbox.Status) bool {
		hasIt := slices.ContainsFunc(status.Backends, func(b signalbox.BackendStatus) bool { return b.Name == name })
		return !status.Reloaded.Before(since) && hasIt == served
	})
}

// isServed reports whether a gateway with the file has a backend for a server.
func isServed(e *command.Env, file configedit.File, name string) bool {
	cfg, err := config.Parse(file.Name, file.Text, e.LookupEnv)
	if err != nil {
		return file.Enabled(name) // variables may be set for the gateway only
	}
	source.LeaveSelf(cfg)
	return slices.ContainsFunc(cfg.Servers, func(b config.Backend) bool { return b.Name == name && !b.Disabled })
}
