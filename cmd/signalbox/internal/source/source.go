// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source finds the configuration file of a command, and the state folder that
// belongs to it.
//
// A command that is given no file takes the first of those in the working directory, then
// that of the user, and otherwise, where this makes sense, the built-in demo. What is kept
// for a file from one command to the next, and the sockets of the gateways that serve it,
// is in a folder named after the path of the file.
package source

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// Names lists the names of configuration files for messages, in order of preference.
const Names = "signalbox.yaml, signalbox.json, .mcp.json or mcp.json"

// userName is the name of the file in the user's folder for configurations.
const userName = "signalbox.yaml"

// Source is the source of a configuration: a file, the demo, or nothing.
type Source struct {
	Path   string // "" means the demo, or nothing
	None   string // the instructions for clients of a gateway without servers; "" means the demo
	Lookup func(string) (string, bool)
}

// Find returns the file named by a flag, or the file found in the working directory or the
// user's folder for configurations, or the demo.
func Find(e *command.Env, flag string) Source {
	if flag != "" {
		return Source{Path: e.Path(flag), Lookup: e.LookupEnv}
	}
	if found, ok := config.Find(e.Dir); ok {
		return Source{Path: found, Lookup: e.LookupEnv}
	}
	path := UserConfig(e)
	// A file that cannot be read counts, as in the working directory.
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		path = ""
	}
	return Source{Path: path, Lookup: e.LookupEnv}
}

// FindFile is Find for a command that needs a file.
func FindFile(e *command.Env, flag string) (Source, error) {
	src := Find(e, flag)
	if !src.HasFile() {
		return src, command.Usagef("%s; name the file with --config, or make one with 'signalbox import' or 'signalbox add'", NothingFound(e))
	}
	return src, nil
}

// UserConfig returns the path of the file in the user's folder for configurations, as
// os.UserConfigDir, or "" if that is unknown.
func UserConfig(e *command.Env) string {
	in := func(variable string, below ...string) string {
		folder, _ := e.LookupEnv(variable)
		if !filepath.IsAbs(folder) {
			return ""
		}
		return filepath.Join(append(append([]string{folder}, below...), "signalbox", userName)...)
	}
	switch runtime.GOOS {
	case "windows":
		return in("AppData")
	case "darwin":
		return in("HOME", "Library", "Application Support")
	}
	return cmp.Or(in("XDG_CONFIG_HOME"), in("HOME", ".config"))
}

// NoServers returns the instructions for the clients of a gateway for which no configuration
// was found. They are sent to a model, which tells its user.
func NoServers(e *command.Env) string {
	here, err := filepath.Abs(e.Path("."))
	if err != nil {
		here = "the working directory"
	}
	looked := fmt.Sprintf("%s in %s", Names, here)
	add := "signalbox add NAME -- COMMAND"
	if path := UserConfig(e); path != "" {
		looked += ", and for " + path
		add = fmt.Sprintf("signalbox add --config %q NAME -- COMMAND", path)
	}
	return fmt.Sprintf("Signalbox has no tools, because it found no configuration. It looked for %s. "+
		"To add a server, run '%s' in a terminal, or add --config FILE to the arguments of Signalbox in this client; then restart the client.", looked, add)
}

// NothingFound describes that there is no file. It mentions the files of editors, which are
// not used automatically: their user has approved them in the editor only.
func NothingFound(e *command.Env) string {
	var found strings.Builder
	for _, name := range []string{filepath.Join(".cursor", "mcp.json"), filepath.Join(".vscode", "mcp.json")} {
		if info, err := os.Stat(e.Path(name)); err == nil && !info.IsDir() {
			fmt.Fprintf(&found, "; to use %s, add --config %[1]s", name)
		}
	}
	text := "no " + Names + " here"
	if path := UserConfig(e); path != "" {
		text += ", and no " + path
	}
	return text + found.String()
}

// HasFile reports whether there is a file.
func (s Source) HasFile() bool { return s.Path != "" }

// IsDemo reports whether it is the built-in demo.
func (s Source) IsDemo() bool { return s.Path == "" && s.None == "" }

// Load reads the configuration. It refuses a file of a gateway that has started this process.
func (s Source) Load() (*config.Config, error) {
	if !s.HasFile() {
		return &config.Config{Instructions: s.None}, nil
	}
	if err := s.RefuseLoop(); err != nil {
		return nil, err
	}
	cfg, err := config.Inspect(s.Path, s.Lookup)
	if err != nil {
		return nil, err
	}
	s.MarkBackends(cfg)
	return cfg, nil
}

// Server returns the entry of a server. The error is about a name that no entry has.
func (s Source) Server(cfg *config.Config, name string) (*config.Backend, error) {
	var names []string
	for i := range cfg.Servers {
		if cfg.Servers[i].Name == name {
			return &cfg.Servers[i], nil
		}
		names = append(names, cfg.Servers[i].Name)
	}
	hint := "it has none (add one with 'signalbox add')"
	if len(names) > 0 {
		hint = cmp.Or(spelling.DidYouMean(name, names), "it has: "+strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%s has no server %q; %s", s.Path, name, hint)
}

// Options returns the Options of a Gateway for the configuration.
func (s Source) Options(log *slog.Logger) signalbox.Options {
	opt := signalbox.Options{Logger: log}
	if s.IsDemo() {
		none := "" // no prefix: there is only one backend
		opt.InProcess = []signalbox.InProcess{{Name: "demo", Prefix: &none, Handler: demo.New()}}
	}
	return opt
}

// Flag adds the flag with the configuration file to a command.
func Flag(cmd *cobra.Command, path *string) {
	command.AddWord(cmd, path, "config", "", "configuration `FILE` (default: "+Names+", or the user's "+userName+")")
	if err := cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		panic(err) //nolint:forbidigo // the flag was added in the line above
	}
}
