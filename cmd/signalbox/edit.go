// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

// What the commands that edit the file have in common, for their help.
const editHelp = `
The rest of the file stays as it is, with comments, order and style. The difference is
printed, with credentials removed. Running gateways that serve the file apply the change
by the rules for changed files: a new program may wait for 'signalbox reload'.`

type addFlags struct {
	tryFlags

	config  string
	headers []string // each as 'Name: value' or NAME=VALUE
	env     []string // each as NAME=VALUE
}

func newAdd(e *env) *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add (NAME (URL | -- COMMAND [ARG ...]) | [NAME] -)",
		Short: "Add a server to the configuration file",
		Long: `Add a server to the configuration file: a program to start, or the URL of a remote
server. It is the last one of the file, and written in the style of the one before it.
Without a file, ` + newConfigName + ` is created.

With -, standard input is read, as by 'signalbox import -': a map of servers, one server, a
command such as "claude mcp add ...", or an address. All servers in it are added. NAME is
for a text with one server.

On a terminal, or with --try, the server is started or reached first, and what its tools
cost is printed. If it does not work, the reason is shown, and it is written only after a
question.
` + editHelp + `

A credential is best written as ${NAME}, which takes it from 'signalbox secret set NAME',
or from the environment of the gateway. Use single quotes, so that the shell does not
replace it.`,
		Example: `  signalbox add files -- npx -y @modelcontextprotocol/server-filesystem /srv
  signalbox add tickets https://example.com/mcp --header 'Authorization: Bearer ${TICKETS_TOKEN}'
  signalbox add - < pasted.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.add(cmd.Context(), &f, args, cmd.ArgsLenAtDash())
		},
	}
	configFlag(cmd, &f.config)
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "send a header to the URL, as `'Name: value'` or NAME=VALUE; may be repeated")
	f.addTo(cmd)
	cmd.Flags().StringArrayVar(&f.env, "env", nil, "set a variable of the program, as `NAME=VALUE`; may be repeated")
	return cmd
}

// entry returns the entry for the arguments. dash is the number of arguments before --, or -1.
func (f *addFlags) entry(args []string, dash int) (configedit.Entry, error) {
	switch {
	case dash == 1 && len(args) > 1 && len(f.headers) > 0:
		return nil, usagef("--header needs a URL; a program has --env")
	case dash == 1 && len(args) > 1:
		entry := configedit.Entry{{Key: "command", Value: args[1]}}
		if len(args) > 2 {
			entry = append(entry, configedit.Field{Key: "args", Value: args[2:]})
		}
		return withPairs(entry, "env", f.env, "=")
	case dash < 0 && len(args) == 2 && !strings.HasPrefix(args[1], "http://") && !strings.HasPrefix(args[1], "https://"):
		return nil, usagef("%q is not an http or https URL; for a program, write -- before it", args[1])
	case dash < 0 && len(args) == 2 && len(f.env) > 0:
		return nil, usagef("--env needs a program; a URL has --header")
	case dash < 0 && len(args) == 2:
		return withPairs(configedit.Entry{{Key: "url", Value: args[1]}}, "headers", f.headers, ":=")
	default:
		return nil, usagef("want a NAME and a URL, or a NAME, -- and a command with its arguments")
	}
}

// withPairs adds a mapping of flags to an entry. Each flag is a name and a value, with one of
// the separators between them.
func withPairs(entry configedit.Entry, key string, flags []string, separators string) (configedit.Entry, error) {
	var pairs configedit.Entry
	for _, text := range flags {
		i := strings.IndexAny(text, separators)
		if i <= 0 {
			// Not the text: it may be a credential.
			return nil, usagef("one of %q is not of the form NAME=VALUE", key)
		}
		name, value := strings.TrimSpace(text[:i]), text[i+1:]
		if text[i] == ':' {
			value = strings.TrimSpace(value)
		}
		if slices.ContainsFunc(pairs, func(f configedit.Field) bool { return f.Key == name }) {
			return nil, usagef("%q is set twice", name)
		}
		pairs = append(pairs, configedit.Field{Key: name, Value: value})
	}
	if pairs != nil {
		entry = append(entry, configedit.Field{Key: key, Value: pairs})
	}
	return entry, nil
}

func newRemove(e *env) *cobra.Command {
	return newEdit(e, &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a server from the configuration file",
		Long: `Remove a server from the configuration file, also from the servers of profiles. Comments
above its entry stay.
` + editHelp,
		Args: argsBetween(1, 1, "one NAME"),
	}, func(f configedit.File, args []string) ([]byte, error) { return f.Remove(args[0]) })
}

func newRename(e *env) *cobra.Command {
	return newEdit(e, &cobra.Command{
		Use:   "rename OLD NEW",
		Short: "Rename a server in the configuration file",
		Long: `Rename a server in the configuration file, also in the servers of profiles. Unless it has a
"prefix", the names of its tools and prompts begin with its name, and change with it: also
where a profile includes or excludes them by that beginning.
` + editHelp,
		Args: argsBetween(2, 2, "the OLD and the NEW name"),
	}, func(f configedit.File, args []string) ([]byte, error) { return f.Rename(args[0], args[1]) })
}

func newEnable(e *env) *cobra.Command {
	return newEdit(e, &cobra.Command{
		Use:   "enable NAME",
		Short: "Enable a disabled server in the configuration file",
		Long: `Enable a server that is disabled in the configuration file: remove "disabled" from its
entry, or set "enabled" to true if it has that key.
` + editHelp,
		Args: argsBetween(1, 1, "one NAME"),
	}, func(f configedit.File, args []string) ([]byte, error) { return f.Enable(args[0]) })
}

func newDisable(e *env) *cobra.Command {
	return newEdit(e, &cobra.Command{
		Use:   "disable NAME",
		Short: "Disable a server in the configuration file",
		Long: `Disable a server in the configuration file, and keep its entry: set "disabled" to true, or
"enabled" to false if the entry has that key.
` + editHelp,
		Args: argsBetween(1, 1, "one NAME"),
	}, func(f configedit.File, args []string) ([]byte, error) { return f.Disable(args[0]) })
}

// newEdit completes a command that changes an existing file. The last argument is the name
// of the server after the change.
func newEdit(e *env, cmd *cobra.Command, change func(f configedit.File, args []string) ([]byte, error)) *cobra.Command {
	var file string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return e.edit(cmd.Context(), file, args[len(args)-1], func(f configedit.File) ([]byte, error) { return change(f, args) })
	}
	configFlag(cmd, &file)
	return cmd
}

// newConfigName is the name of a file that add creates.
const newConfigName = "signalbox.yaml"

// edit changes an existing configuration file, and prints the difference and what gateways
// make of it. name is the server that the change is about.
func (e *env) edit(ctx context.Context, flag, name string, change func(configedit.File) ([]byte, error)) error {
	return e.editIf(ctx, flag, name, false, nil, change)
}

// editIf is edit with a decision about the changed file before it is written; nil means yes.
// With mayCreate, the file may be a new one.
func (e *env) editIf(ctx context.Context, flag, name string, mayCreate bool, decide func(configedit.File) (bool, error), change func(configedit.File) ([]byte, error)) error {
	path := e.source(flag).path
	switch {
	case path == "" && mayCreate:
		path = e.path(newConfigName)
	case path == "":
		return usagef("%s; name the file with --config", e.nothingFound())
	}
	// Clients without a configuration are told to add to this file.
	if mayCreate && path == e.userConfig() {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
	}
	file, err := safefile.Read(path, configedit.MaxSize)
	if err != nil {
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
		return e.printText(e.Stdout, path+": nothing to change\n")
	}
	after := configedit.File{Name: path, Text: text}
	if err := e.checkEdit(before, after); err != nil {
		return err
	}
	if decide != nil {
		if ok, err := decide(after); !ok {
			return err
		}
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	lock := ""
	folder, folderErr := e.stateFolder(path)
	if folderErr == nil {
		lock = filepath.Join(folder, "edit.lock")
	}
	written := time.Now()
	if err := file.Replace(ctx, text, lock); err != nil {
		return err
	}
	if err := e.printText(e.Stdout, redactorOf(before, after).Text(unifiedDiff(path, file.Text, text))); err != nil {
		return err
	}
	if folderErr != nil {
		return nil // and no gateway could be reached
	}
	return e.printApplied(ctx, after, name, socketsIn(folder), written)
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
		headers[name] = withEscaped(slices.DeleteFunc(values, isReference))
	}
	for i := range urls {
		urls[i] = reference.ReplaceAllString(urls[i], "")
	}
	return redact.New(headers, withEscaped(slices.DeleteFunc(env, isReference)), urls...).With(withEscaped(more)...)
}

// reference matches a reference to a variable.
var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// withEscaped adds to texts how a file has them in quotes.
func withEscaped(texts []string) []string {
	for _, text := range texts {
		if escaped := strconv.Quote(text); len(escaped) > len(text)+len(`""`) {
			texts = append(texts, escaped[1:len(escaped)-1])
		}
	}
	return texts
}

// checkEdit returns the problems of a file that it did not have before. A file with other
// problems can be edited: that may be the cure.
func (e *env) checkEdit(before, after configedit.File) error {
	found := e.problems(after)
	for _, known := range e.problems(before) {
		found = slices.DeleteFunc(found, isSame(known))
	}
	if len(found) > 0 {
		return fmt.Errorf("%w\n%s is unchanged", found, before.Name)
	}
	return nil
}

// problems returns the problems of a file that it has whatever the values of unset variables
// are: they may be set for the gateway.
func (e *env) problems(f configedit.File) config.Problems {
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

// printApplied prints what each running gateway makes of a change of a server.
func (e *env) printApplied(ctx context.Context, file configedit.File, name string, sockets []string, since time.Time) error {
	served := e.isServed(file, name)
	return e.printReloads(ctx, sockets, since, func(status *signalbox.Status) bool {
		hasIt := slices.ContainsFunc(status.Backends, func(b signalbox.BackendStatus) bool { return b.Name == name })
		return !status.Reloaded.Before(since) && hasIt == served
	})
}

// isServed reports whether a gateway with the file has a backend for a server.
func (e *env) isServed(file configedit.File, name string) bool {
	cfg, err := config.Parse(file.Name, file.Text, e.LookupEnv)
	if err != nil {
		return file.Enabled(name) // variables may be set for the gateway only
	}
	leaveSelf(cfg)
	return slices.ContainsFunc(cfg.Servers, func(b config.Backend) bool { return b.Name == name && !b.Disabled })
}
