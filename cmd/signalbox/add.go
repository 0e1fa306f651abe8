// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

// tryFlags are the flags of add for the trial of a server.
type tryFlags struct {
	try, noTry, yes bool
}

func (f *tryFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.try, "try", false, "start or reach the server first, as on a terminal; write nothing if it does not work")
	cmd.Flags().BoolVar(&f.noTry, "no-try", false, "write without trying the server")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "write without a question, also if the server does not work")
}

// add adds the server of the arguments, or those of standard input.
func (e *env) add(ctx context.Context, f *addFlags, args []string, dash int) error {
	if f.try && f.noTry {
		return usagef("both --try and --no-try; choose one")
	}
	if dash < 0 && len(args) > 0 && len(args) <= 2 && args[len(args)-1] == "-" {
		if len(f.headers)+len(f.env) > 0 {
			return usagef("--header and --env belong to a server on the command line; write them into the text")
		}
		return e.addPasted(ctx, f, args[:len(args)-1])
	}
	entry, err := f.entry(args, dash)
	if err != nil {
		return err
	}
	err = e.editIf(ctx, f.config, args[0], true, e.trial(ctx, f.tryFlags, args[:1]), func(file configedit.File) ([]byte, error) { return file.Add(args[0], entry) })
	if err == nil {
		e.noteSecrets(args[0], entry)
		e.noteMissing(f.config, args[:1])
	}
	return err
}

// noteMissing prints the variables that servers of a file need and that are not set.
func (e *env) noteMissing(flag string, names []string) {
	path := e.source(flag).path
	own, err := e.ownServers(path)
	file := &importOutput{target: path}
	if err != nil || file.read() != nil {
		return // the file has been written
	}
	lookup := file.lookup(e.LookupEnv)
	var missing []string
	for i := range own {
		if own[i].Disabled || !slices.Contains(names, own[i].Original) {
			continue
		}
		for _, name := range own[i].Variables {
			if _, set := lookup(name); !set && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		e.printError(fmt.Sprintf("to be set: %s (with 'signalbox secret set NAME', or in the environment)", strings.Join(missing, ", ")))
	}
}

// addPasted adds the servers of a text on standard input. With a name, it must be one server.
func (e *env) addPasted(ctx context.Context, f *addFlags, name []string) error {
	in, err := e.readPasted(clients.Client{}, e.places())
	if err != nil {
		return err
	}
	servers := imports.Merge(in.results, nil, e.LookupEnv)
	var names, tried []string
	for i := range servers {
		names = append(names, servers[i].Name)
	}
	for _, result := range in.results {
		for _, n := range result.Notes {
			e.printError(visibleLine(n.Text))
		}
	}
	switch {
	case len(servers) == 0:
		return errors.New("standard input has no server that can be added")
	case len(name) == 1 && len(servers) > 1:
		return usagef("standard input has %d servers, and one NAME cannot be for all: %s", len(servers), strings.Join(names, ", "))
	case len(name) == 1:
		servers[0].Name, names = name[0], name
		servers[0].Notes = slices.DeleteFunc(servers[0].Notes, func(n imports.Note) bool { return strings.HasPrefix(n.Text, "renamed from ") })
	}
	for i := range servers {
		for _, n := range servers[i].Notes {
			e.printError(visibleLine(servers[i].Name + ": " + n.Text))
		}
		if !servers[i].Disabled {
			tried = append(tried, servers[i].Name)
		}
	}
	err = e.editIf(ctx, f.config, servers[len(servers)-1].Name, true, e.trial(ctx, f.tryFlags, tried), func(file configedit.File) ([]byte, error) {
		for i := range servers {
			text, err := file.Add(servers[i].Name, entryOf(&servers[i]))
			if err != nil {
				return nil, err
			}
			file.Text = text
		}
		return file.Text, nil
	})
	if err != nil {
		return err
	}
	for i := range servers {
		e.noteSecrets(servers[i].Name, entryOf(&servers[i]))
	}
	e.noteMissing(f.config, names)
	return nil
}

// trial returns what decides about a changed file: it starts or reaches the new servers, and
// asks if one does not work. It is nil if they are not tried. Without a terminal only --try
// starts them: a script that adds a server does not expect that its program runs.
func (e *env) trial(ctx context.Context, f tryFlags, names []string) func(configedit.File) (bool, error) {
	if f.noTry || !f.try && !e.Terminal(e.Stdin) || len(names) == 0 {
		return nil
	}
	return func(after configedit.File) (bool, error) {
		cfg, err := e.trialConfig(after)
		if err != nil {
			e.printError(fmt.Sprintf("not tried: %v", err))
			return true, nil // variables may be set for the gateway only
		}
		found, err := e.tryServers(ctx, cfg, names)
		if err != nil {
			return false, err
		}
		if _, err := e.Stdout.Write(e.findingsTable(found)); err != nil {
			return false, err
		}
		failed := needsAttention(found)
		if failed == nil || f.yes {
			return true, nil
		}
		if !e.Terminal(e.Stdin) {
			return false, fmt.Errorf("%w; nothing was written (--yes writes it anyway)", failed)
		}
		return e.confirm(ctx, false, "Write it anyway?")
	}
}

// trialConfig returns the configuration of a file that is not written yet.
func (e *env) trialConfig(file configedit.File) (*config.Config, error) {
	cfg, err := config.Parse(file.Name, file.Text, e.LookupEnv)
	if err != nil {
		return nil, err
	}
	src := source{path: file.Name, lookup: e.LookupEnv}
	if err := src.refuseLoop(); err != nil {
		return nil, err
	}
	src.markBackends(cfg)
	leaveSelf(cfg)
	return cfg, nil
}

// tryServers starts or reaches servers, as doctor does. The error is that of an interrupt.
func (e *env) tryServers(ctx context.Context, cfg *config.Config, names []string) ([]finding, error) {
	var servers []config.Backend
	for _, s := range cfg.Servers {
		if slices.Contains(names, s.Name) && !s.Disabled {
			servers = append(servers, s)
		}
	}
	if e.Terminal(e.Stderr) {
		e.printError(fmt.Sprintf("trying %s; this takes up to %v", strings.Join(names, ", "), doctorTime))
	}
	interrupted, done := e.interruptible(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(interrupted, doctorTime)
	defer cancel()
	found := e.checkServers(ctx, cfg, servers)
	if interrupted.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return found, nil
}
