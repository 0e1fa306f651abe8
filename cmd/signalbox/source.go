// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
)

// configNames lists the names of configuration files for messages, in order of preference.
const configNames = "signalbox.yaml, signalbox.json, .mcp.json or mcp.json"

// userConfigName is the name of the file in the user's folder for configurations.
const userConfigName = "signalbox.yaml"

// source is the source of a configuration: a file, the demo, or nothing.
type source struct {
	path   string // "" means the demo, or nothing
	none   string // the instructions for clients of a gateway without servers; "" means the demo
	lookup func(string) (string, bool)
}

// source returns the file named by a flag, or the file found in the working directory or the
// user's folder for configurations, or the demo.
func (e *env) source(flag string) source {
	if flag != "" {
		return source{path: e.path(flag), lookup: e.LookupEnv}
	}
	if found, ok := config.Find(e.Dir); ok {
		return source{path: found, lookup: e.LookupEnv}
	}
	path := e.userConfig()
	// A file that cannot be read counts, as in the working directory.
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		path = ""
	}
	return source{path: path, lookup: e.LookupEnv}
}

// userConfig returns the path of the file in the user's folder for configurations, as
// os.UserConfigDir, or "" if that is unknown.
func (e *env) userConfig() string {
	in := func(variable string, below ...string) string {
		folder, _ := e.LookupEnv(variable)
		if !filepath.IsAbs(folder) {
			return ""
		}
		return filepath.Join(append(append([]string{folder}, below...), "signalbox", userConfigName)...)
	}
	switch runtime.GOOS {
	case "windows":
		return in("AppData")
	case "darwin":
		return in("HOME", "Library", "Application Support")
	}
	return cmp.Or(in("XDG_CONFIG_HOME"), in("HOME", ".config"))
}

// noServers returns the instructions for the clients of a gateway for which no configuration
// was found. They are sent to a model, which tells its user.
func (e *env) noServers() string {
	here, err := filepath.Abs(e.path("."))
	if err != nil {
		here = "the working directory"
	}
	looked := fmt.Sprintf("%s in %s", configNames, here)
	add := "signalbox add NAME -- COMMAND"
	if path := e.userConfig(); path != "" {
		looked += ", and for " + path
		add = fmt.Sprintf("signalbox add --config %q NAME -- COMMAND", path)
	}
	return fmt.Sprintf("Signalbox has no tools, because it found no configuration. It looked for %s. "+
		"To add a server, run '%s' in a terminal, or add --config FILE to the arguments of Signalbox in this client; then restart the client.", looked, add)
}

// nothingFound describes that there is no file. It mentions the files of editors, which are
// not used automatically: their user has approved them in the editor only.
func (e *env) nothingFound() string {
	var found strings.Builder
	for _, name := range []string{filepath.Join(".cursor", "mcp.json"), filepath.Join(".vscode", "mcp.json")} {
		if info, err := os.Stat(e.path(name)); err == nil && !info.IsDir() {
			fmt.Fprintf(&found, "; to use %s, add --config %[1]s", name)
		}
	}
	text := "no " + configNames + " here"
	if path := e.userConfig(); path != "" {
		text += ", and no " + path
	}
	return text + found.String()
}

func (s source) hasFile() bool { return s.path != "" }

func (s source) isDemo() bool { return s.path == "" && s.none == "" }

func (s source) load() (*config.Config, error) {
	if !s.hasFile() {
		return &config.Config{Instructions: s.none}, nil
	}
	if err := s.refuseLoop(); err != nil {
		return nil, err
	}
	cfg, err := config.Inspect(s.path, s.lookup)
	if err != nil {
		return nil, err
	}
	s.markBackends(cfg)
	return cfg, nil
}

// options returns the Options of a Gateway for the configuration.
func (s source) options(log *slog.Logger) signalbox.Options {
	opt := signalbox.Options{Logger: log}
	if s.isDemo() {
		none := "" // no prefix: there is only one backend
		opt.InProcess = []signalbox.InProcess{{Name: "demo", Prefix: &none, Handler: demo.New()}}
	}
	return opt
}

// A client's file of servers is a valid configuration, and the documentation asks users to
// add the gateway to that file. A gateway that is started with it would then be its own backend:
// with stdio each process would start another without end, with HTTP each list would
// contain the previous one.

// insideVariable is set for all processes that a gateway starts. It has the fileIDs of the
// configurations of that gateway and of those around it.
const insideVariable = "SIGNALBOX_INSIDE"

// fileID identifies a file in insideVariable. It is not the path: log messages have the
// values of a backend's environment redacted, and would lose the configuration's path.
func fileID(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// enclosing returns the fileIDs of the gateways that started this process.
func (s source) enclosing() []string {
	marks, _ := s.lookup(insideVariable)
	return strings.FieldsFunc(marks, func(r rune) bool { return r == ',' })
}

// refuseLoop rejects a file that already configures a gateway around this one.
func (s source) refuseLoop() error {
	if !slices.Contains(s.enclosing(), fileID(s.path)) {
		return nil
	}
	return fmt.Errorf("%s would start itself without end: "+
		"a gateway with this configuration has run this command "+
		"(give the entry that runs it another --config, or the --url of a running gateway)", s.path)
}

// markBackends sets insideVariable for all backends that are processes. cfg must have just
// been read, and not be in use.
func (s source) markBackends(cfg *config.Config) {
	inside := config.NewSecret(strings.Join(append(s.enclosing(), fileID(s.path)), ","))
	for i := range cfg.Servers {
		b := &cfg.Servers[i]
		if b.Command == "" {
			continue
		}
		env := map[string]config.Secret{insideVariable: inside}
		maps.Copy(env, b.Env) // a configured value wins
		b.Env = env
	}
}

// leaveSelf disables the entries that have the gateway's own address, and adds a note for
// each. Such an entry is no mistake, since other programs read the file, too.
func leaveSelf(cfg *config.Config) {
	effective := cfg.Effective()
	for i := range cfg.Servers {
		b := &cfg.Servers[i]
		if b.Disabled || b.URL == "" || !isSelf(b.URL, effective.Listen, effective.Path) {
			continue
		}
		b.Disabled = true
		cfg.Notes = append(cfg.Notes, config.Problem{
			Path:    "mcpServers." + b.Name,
			Message: fmt.Sprintf("%q is this gateway itself and is skipped", b.Name),
		})
	}
}

// isSelf reports whether a URL is that of the endpoint at a listener's address, or of a
// profile there. Names are
// not looked up in the DNS: the line that the documentation asks users to paste names loopback.
func isSelf(address, listen, path string) bool {
	// A mistake in one of the addresses is reported elsewhere, and makes no loop.
	u, err := url.Parse(address)
	host, port, lerr := net.SplitHostPort(listen)
	if err != nil || lerr != nil || portOf(u) != port {
		return false
	}
	if _, profile := profileIn(u.Path, path); u.Path != path && !profile {
		return false
	}
	if u.Hostname() == host {
		return true
	}
	// A listener on all addresses includes loopback. Whether another name is one of this
	// machine is unknown here.
	everywhere := host == "" || host == "0.0.0.0" || host == "::"
	return isLocal(net.JoinHostPort(u.Hostname(), portOf(u))) && (everywhere || isLocal(listen))
}

// portOf returns the port of a URL, or the default of its scheme.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}
