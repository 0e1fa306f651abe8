// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"regexp"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// Reference is a variable that a file takes its value from.
type Reference struct {
	// Server is the server with the reference, or "" for the rest of the file.
	Server string
	Name   string
	// Optional is whether the reference has a default, or the server is disabled.
	Optional bool
}

var reference = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-|})`)

// References returns the variables of a file, in file order. Each is listed once for a
// server, and it is optional if all its references are. A file that cannot be read has none.
func (f File) References() []Reference {
	d, err := parse(f)
	if err != nil {
		return nil
	}
	var all []Reference
	servers, _ := d.serversNode()
	for _, server := range servers.Members {
		all = referencesIn(server.Value, server.Key, isDisabled(server.Value), all)
	}
	for _, m := range d.root.Members {
		if m.Key != serversKey && m.Key != editorsKey {
			all = referencesIn(m.Value, "", false, all)
		}
	}
	return all
}

// referencesIn adds the variables of a value to a list.
func referencesIn(n configfile.Node, server string, optional bool, all []Reference) []Reference {
	for _, found := range reference.FindAllStringSubmatch(n.Text, -1) {
		r := Reference{server, found[1], optional || found[2] == ":-"}
		at := slices.IndexFunc(all, func(old Reference) bool { return old.Server == r.Server && old.Name == r.Name })
		if at < 0 {
			all = append(all, r)
		} else {
			all[at].Optional = all[at].Optional && r.Optional
		}
	}
	for _, item := range n.Items {
		all = referencesIn(item, server, optional, all)
	}
	for _, m := range n.Members {
		all = referencesIn(m.Value, server, optional, all)
	}
	return all
}
