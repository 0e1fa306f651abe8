// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/internal/config"
)

// The file that a client keeps its servers in is a configuration of ours, and
// what we tell people to paste there is ourselves. A gateway that is started
// beside that file would then be a backend of its own: on stdio each process
// starts the next until the machine has no more, on HTTP each list holds the
// list before it.

// insideVariable holds, for everything that a gateway has started, the marks of
// the files by which it and those around it were configured.
const insideVariable = "SIGNALBOX_INSIDE"

// mark returns what stands for a file in insideVariable. It is no path, because
// the log blackens what a backend's environment holds, and the path of the
// configuration is worth reading there.
func mark(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// around returns the marks of the gateways that this process was started by.
func (s source) around() []string {
	marks, _ := s.lookup(insideVariable)
	return strings.FieldsFunc(marks, func(r rune) bool { return r == ',' })
}

// refuseLoop refuses a file by which a gateway around this one is configured.
func (s source) refuseLoop() error {
	if !slices.Contains(s.around(), mark(s.path)) {
		return nil
	}
	return fmt.Errorf("%s would start itself without end: a gateway that it configures has run this command "+
		"(have the entry that does so name another --config, or a running gateway with --url)", s.path)
}

// markBackends has everything that the backends start know what it is inside of.
// The configuration is one that was just read, and nobody else's yet.
func (s source) markBackends(cfg *signalbox.Config) {
	inside := config.NewSecret(strings.Join(append(s.around(), mark(s.path)), ","))
	for i := range cfg.Servers {
		b := &cfg.Servers[i]
		if b.Command == "" {
			continue
		}
		env := map[string]config.Secret{insideVariable: inside}
		maps.Copy(env, b.Env) // who sets the variable knows why
		b.Env = env
	}
}

// leaveSelf takes the entries out whose address is the gateway's own, and says
// so in the notes. Such an entry is right where it stands, since other programs
// read the file too.
func leaveSelf(cfg *signalbox.Config) {
	effective := cfg.Effective()
	for i := range cfg.Servers {
		b := &cfg.Servers[i]
		if b.Disabled || b.URL == "" || !isSelf(b.URL, effective.Listen, effective.Path) {
			continue
		}
		b.Disabled = true
		cfg.Notes = append(cfg.Notes, config.Problem{
			Path:    "mcpServers." + b.Name,
			Message: fmt.Sprintf("%q is this gateway itself and is left out", b.Name),
		})
	}
}

// isSelf reports whether a URL is that of the endpoint at a listener's address.
// Names that the DNS knows are not looked up: what matters is the line that we
// tell people to paste, and that one names loopback.
func isSelf(address, listen, path string) bool {
	// A mistake in either of the two is told by others, and makes no loop.
	u, err := url.Parse(address)
	host, port, lerr := net.SplitHostPort(listen)
	if err != nil || lerr != nil || u.Path != path || portOf(u) != port {
		return false
	}
	if u.Hostname() == host {
		return true
	}
	// On all addresses it is on loopback too; that it is this machine's under some
	// other name cannot be known here, and is left to whoever wrote it.
	everywhere := host == "" || host == "0.0.0.0" || host == "::"
	return isLocal(net.JoinHostPort(u.Hostname(), portOf(u))) && (everywhere || isLocal(listen))
}

// portOf returns the port that a URL leads to, which it need not name.
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
