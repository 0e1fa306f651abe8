// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
)

// IsLocal reports whether only this machine reaches an address. A name other than
// localhost counts as not local: looking it up would make the answer depend on the network.
func IsLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false // listen reports the error
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Origin returns the URL, without a path, at which programs of this machine reach a gateway with a
// configuration: for a listener on all addresses, that of loopback.
func Origin(cfg *config.Config) (*url.URL, error) {
	listen := cfg.Effective().Listen
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("listen %q is not an address", listen)
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	scheme := "http"
	if cfg.TLS != nil {
		scheme = "https"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, nil
}

// A client's file of servers is a valid configuration, and the documentation asks users to
// add the gateway to that file. A gateway that is started with it would then be its own backend:
// with stdio each process would start another without end, with HTTP each list would
// contain the previous one.

// InsideVariable is set for all processes that a gateway starts. It has the fileIDs of the
// configurations of that gateway and of those around it.
const InsideVariable = "SIGNALBOX_INSIDE"

// enclosing returns the fileIDs of the gateways that started this process.
func (s Source) enclosing() []string {
	marks, _ := s.Lookup(InsideVariable)
	return strings.FieldsFunc(marks, func(r rune) bool { return r == ',' })
}

// RefuseLoop rejects a file that already configures a gateway around this one.
func (s Source) RefuseLoop() error {
	if !slices.Contains(s.enclosing(), FileID(s.Path)) {
		return nil
	}
	return fmt.Errorf("%s would start itself without end: "+
		"a gateway with this configuration has run this command "+
		"(give the entry that runs it another --config, or the --url of a running gateway)", s.Path)
}

// MarkBackends sets InsideVariable for all backends that are processes. cfg must have just
// been read, and not be in use.
func (s Source) MarkBackends(cfg *config.Config) {
	inside := config.NewSecret(strings.Join(append(s.enclosing(), FileID(s.Path)), ","))
	for i := range cfg.Servers {
		b := &cfg.Servers[i]
		if b.Command == "" {
			continue
		}
		env := map[string]config.Secret{InsideVariable: inside}
		maps.Copy(env, b.Env) // a configured value wins
		b.Env = env
	}
}

// LeaveSelf disables the entries that have the gateway's own address, and adds a note for
// each. Such an entry is no mistake, since other programs read the file, too.
func LeaveSelf(cfg *config.Config) {
	effective := cfg.Effective()
	for i := range cfg.Servers {
		b := &cfg.Servers[i]
		if b.Disabled || b.URL == "" || !isSelf(b.URL, effective.Listen, effective.Path) {
			continue
		}
		b.Disabled = true
		cfg.Notes = append(cfg.Notes, config.Problem{
			Path:    configpath.Server(b.Name),
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
	if _, profile := profiles.In(u.Path, path); u.Path != path && !profile {
		return false
	}
	if u.Hostname() == host {
		return true
	}
	// A listener on all addresses includes loopback. Whether another name is one of this
	// machine is unknown here.
	everywhere := host == "" || host == "0.0.0.0" || host == "::"
	return IsLocal(net.JoinHostPort(u.Hostname(), portOf(u))) && (everywhere || IsLocal(listen))
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
