// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

// cure is a change of the configuration file that corrects a finding.
type cure struct {
	server string
	what   string // for a question
	change func(configedit.File) ([]byte, error)
}

// cures returns the cures of findings, each once.
func cures(file configedit.File, found []check.Finding) []cure {
	var all []cure
	for _, f := range found {
		if c, ok := cureOf(file, f); ok && !slices.ContainsFunc(all, func(other cure) bool { return c.server == other.server && c.what == other.what }) {
			all = append(all, c)
		}
	}
	return all
}

// settingPath matches the place of a note in the entry of a server: a key, and the index of an
// element.
var settingPath = regexp.MustCompile(`^\.(\w+)(?:\[(\d+)\])?$`)

// cureOf returns the cure of a finding, if there is one that only changes the file.
func cureOf(file configedit.File, f check.Finding) (cure, bool) {
	server, rest, _ := configpath.CutServer(f.Path)
	place := settingPath.FindStringSubmatch(rest)
	program, isProgram := strings.CutPrefix(f.Fix, "command: ")
	switch {
	case f.Code == code.StartNotFound && isProgram && filepath.IsAbs(program):
		return cure{f.Name, f.Fix, func(file configedit.File) ([]byte, error) { return file.Set(f.Name, "command", program) }}, true
	case f.Code == code.StartOneString && f.Kind == "server":
		return oneString(file, f.Name)
	case (f.Code == code.FileTilde || f.Code == code.FileRelative) && place != nil:
		old, ok := textAt(file, server, place)
		if !ok {
			return cure{}, false
		}
		text := wholePath(file.Name, old, f.Code)
		what := fmt.Sprintf("%s: %s", rest[1:], strconv.Quote(text))
		return cure{server, what, func(file configedit.File) ([]byte, error) {
			if place[2] == "" {
				return file.Set(server, place[1], text)
			}
			index, err := strconv.Atoi(place[2])
			if err != nil {
				return nil, err
			}
			return file.SetItem(server, place[1], index, text)
		}}, true
	}
	return cure{}, false
}

// oneString splits a command that is a whole line. The words are those of the file, in which
// references to variables stay.
func oneString(file configedit.File, name string) (cure, bool) {
	words, err := imports.Words(file.Value(name, "command"))
	if err != nil || len(words) < 2 {
		return cure{}, false
	}
	args := slices.Concat(words[1:], file.Values(name, "args"))
	shown := make([]string, len(args))
	for i, arg := range args {
		shown[i] = strconv.Quote(arg)
	}
	what := fmt.Sprintf("command: %s, args: [%s]", words[0], strings.Join(shown, ", "))
	return cure{name, what, func(file configedit.File) ([]byte, error) {
		text, err := file.Set(name, "command", words[0])
		if err != nil {
			return nil, err
		}
		file.Text = text
		if file.HasComments(name, "args") {
			return nil, fmt.Errorf("%s: the \"args\" of %q have comments, which would be lost (edit them by hand: %s)", file.Name, name, what)
		}
		return file.Set(name, "args", args)
	}}, true
}

// textAt returns the text at the place of a note, as it is in the file.
func textAt(file configedit.File, server string, place []string) (string, bool) {
	if place[2] == "" {
		text := file.Value(server, place[1])
		return text, text != ""
	}
	texts := file.Values(server, place[1])
	index, err := strconv.Atoi(place[2])
	if err != nil || index >= len(texts) {
		return "", false
	}
	return texts[index], true
}

// wholePath returns an argument, or the value of an option, without what only a shell
// replaces, or with the folder of the file.
func wholePath(file, text, why string) string {
	option, value := "", text
	if before, after, isOption := strings.Cut(text, "="); isOption && strings.HasPrefix(text, "-") {
		option, value = before+"=", after
	}
	if why == code.FileTilde {
		return option + "${HOME}" + strings.TrimPrefix(value, "~")
	}
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return text
	}
	return option + filepath.Join(folder, value)
}

// printFixable names what --fix corrects.
func printFixable(e *command.Env, src source.Source, found []check.Finding) error {
	text, err := edit.ReadUpTo(src.Path, configedit.MaxSize)
	if err != nil {
		return nil //nolint:nilerr // the findings say so
	}
	var names []string
	for _, c := range cures(configedit.File{Name: src.Path, Text: text}, found) {
		if !slices.Contains(names, c.server) {
			names = append(names, c.server)
		}
	}
	if names == nil {
		return nil
	}
	return e.PrintText(e.Stdout, "with --fix, signalbox doctor corrects: "+strings.Join(names, ", ")+"\n")
}

// correct asks for each cure of the findings, makes it, and checks the servers again. The error is
// that of what is still wrong.
func correct(ctx context.Context, e *command.Env, src source.Source, name string, found []check.Finding, yes bool) error {
	text, err := edit.ReadUpTo(src.Path, configedit.MaxSize)
	if err != nil {
		return err
	}
	all := cures(configedit.File{Name: src.Path, Text: text}, found)
	if len(all) == 0 {
		return errors.Join(e.PrintText(e.Stdout, "nothing here can be corrected by --fix\n"), check.NeedsAttention(found))
	}
	var fixed []string
	for _, c := range all {
		ok, err := e.Confirm(ctx, yes, fmt.Sprintf("%s: write %s into %s?", c.server, c.what, e.Tilde(src.Path)))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := edit.Change(ctx, e, src.Path, c.server, c.change); err != nil {
			return err
		}
		if !slices.Contains(fixed, c.server) {
			fixed = append(fixed, c.server)
		}
	}
	if fixed == nil {
		return check.NeedsAttention(found)
	}
	if name == "" && len(fixed) == 1 && !slices.ContainsFunc(found, func(f check.Finding) bool { return f.Kind == "config" && f.Result == check.Fail }) {
		name = fixed[0]
	}
	again, err := examineFor(ctx, e, src, name)
	if err != nil {
		return err
	}
	if err := e.PrintText(e.Stdout, "after the change:\n"+string(check.Table(e, again))); err != nil {
		return err
	}
	if name != "" { // the others are as they were
		for _, f := range found {
			if f.Name != name && f.Kind != "config" {
				again = append(again, f)
			}
		}
	}
	return check.NeedsAttention(again)
}
