// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"cmp"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// container is one collection of servers in a file: a mapping by name, or a list of servers
// with names.
type container struct {
	node    configfile.Node
	dialect clients.Dialect
	project string
	inputs  map[string]input
	// off has the names of servers that another key of the file disables.
	off map[string]bool
	// allowed has the names of the only servers that another key of the file enables.
	allowed map[string]bool
}

// input is a value for which an editor asks its user.
type input struct{ fallback string }

// file reads the servers of a complete file.
func (r *reader) file(root configfile.Node) {
	switch root.Kind {
	case configfile.Mapping:
	case configfile.List:
		r.container(container{node: root, dialect: cmp.Or(r.src.Dialect, clients.MCPServers), project: r.src.Project})
		return
	case configfile.Null:
		return // an empty file
	default:
		r.note(root.At.Line, "the file is %s, and no mapping", root.Kind)
		return
	}
	found := r.containers(root)
	for _, c := range found {
		r.container(c)
	}
	for _, m := range root.Members {
		switch {
		case !looksLikeServer(m.Value) || isContainerKey(m.Key):
		case len(found) == 0:
			r.container(container{
				node:    configfile.Node{At: m.At, Kind: configfile.Mapping, Members: []configfile.Member{m}},
				dialect: cmp.Or(r.src.Dialect, clients.MCPServers), project: r.src.Project,
			})
		default:
			r.note(m.At.Line, "%q is beside the map of servers, and so is used by no client (move it into the map, and import again)", m.Key)
		}
	}
}

// containers returns the collections of servers in a file, in its order.
func (r *reader) containers(root configfile.Node) []container {
	base := container{dialect: r.src.Dialect, project: r.src.Project, inputs: inputs(root)}
	var found []container
	add := func(n configfile.Node, d clients.Dialect) {
		c := base
		c.node, c.dialect = n, cmp.Or(r.src.Dialect, d)
		found = append(found, c)
	}
	for _, m := range root.Members {
		switch n := m.Value; m.Key {
		case "mcpServers":
			d := clients.MCPServers
			if n.Kind == configfile.List {
				d = clients.Continue
			}
			add(n, d)
		case "servers":
			add(n, clients.VSCode)
		case "mcp_servers":
			add(n, clients.Codex)
		case "context_servers":
			add(n, clients.Zed)
		case "amp.mcpServers":
			add(n, clients.Amp)
		case "extensions":
			if r.src.Dialect == clients.Goose || hasServers(n) {
				add(n, clients.Goose)
			}
		case "mcp":
			r.underMCP(n, &base, add)
		case "projects":
			found = append(found, r.projects(n)...)
		case "experimental":
			if list, ok := n.Member("modelContextProtocolServers"); ok {
				add(list, clients.Continue)
			}
		default:
			if n.Kind == configfile.Mapping && isContainerKey(m.Key) {
				r.note(m.At.Line, `%q is read as "mcpServers"`, m.Key)
				add(n, clients.MCPServers)
			}
		}
	}
	for i := range found {
		if found[i].off == nil {
			found[i].off = base.off
		}
		found[i].allowed = base.allowed
		if found[i].project == "" {
			found[i].project = base.project
		}
	}
	return found
}

// isContainerKey reports whether a key means the map of servers, in any spelling.
func isContainerKey(key string) bool {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(key))
	return plain == "mcpservers" || plain == "contextservers" || plain == "servers" || plain == "ampmcpservers"
}

// underMCP reads the key mcp: the map of servers of some clients, a mapping around it of
// others, and settings of Gemini.
func (r *reader) underMCP(n configfile.Node, base *container, add func(configfile.Node, clients.Dialect)) {
	if servers, ok := n.Member("servers"); ok && servers.Kind == configfile.Mapping && !looksLikeServer(servers) {
		if own := inputs(n); own != nil {
			base.inputs = own
		}
		add(servers, openCodeOr(clients.VSCode, servers))
		return
	}
	if hasServers(n) {
		add(n, openCodeOr(clients.Crush, n))
		return
	}
	base.off = names(n, "excluded")
	if allowed := names(n, "allowed"); len(allowed) > 0 {
		base.allowed = allowed
	}
}

// openCodeOr returns the dialect of OpenCode if servers have its types, or else the other one.
func openCodeOr(other clients.Dialect, servers configfile.Node) clients.Dialect {
	for _, m := range servers.Members {
		if kind, _ := m.Value.Member("type"); kind.Text == "local" || kind.Text == "remote" {
			return clients.OpenCode
		}
	}
	return other
}

// projects returns the servers of the projects in the state of Claude Code.
func (r *reader) projects(n configfile.Node) []container {
	var found []container
	for _, project := range n.Members {
		servers, ok := project.Value.Member("mcpServers")
		if !ok || len(servers.Members) == 0 {
			continue
		}
		off := names(project.Value, "disabledMcpServers")
		found = append(found, container{node: servers, dialect: cmp.Or(r.src.Dialect, clients.Claude), project: project.Key, off: off})
	}
	return found
}

// names returns the texts of a list as a set.
func names(n configfile.Node, key string) map[string]bool {
	list, ok := n.Member(key)
	if !ok {
		return nil
	}
	set := make(map[string]bool)
	for _, item := range list.Items {
		set[item.Text] = true
	}
	return set
}

// inputs returns the values for which an editor asks, by their IDs.
func inputs(n configfile.Node) map[string]input {
	list, ok := n.Member("inputs")
	if !ok {
		return nil
	}
	all := make(map[string]input)
	for _, item := range list.Items {
		id, _ := item.Member("id")
		fallback, _ := item.Member("default")
		all[id.Text] = input{fallback.Text}
	}
	return all
}

// hasServers reports whether one of the members of a mapping looks like a server.
func hasServers(n configfile.Node) bool {
	return slices.ContainsFunc(n.Members, func(m configfile.Member) bool { return looksLikeServer(m.Value) })
}

// looksLikeServer reports whether a mapping starts or reaches something.
func looksLikeServer(n configfile.Node) bool {
	if n.Kind != configfile.Mapping {
		return false
	}
	for _, key := range []string{"command", "cmd", "url", "uri", "serverUrl", "httpUrl"} {
		if value, ok := n.Member(key); ok && value.Kind != configfile.Null && value.Kind != configfile.Bool {
			return true
		}
	}
	_, hasType := n.Member("type")
	_, isExtension := n.Member("enabled")
	return hasType && isExtension // an extension of goose
}

// container reads the servers of one collection.
func (r *reader) container(c container) {
	switch c.node.Kind {
	case configfile.Mapping:
		last := make(map[string]int)
		for i, m := range c.node.Members {
			last[m.Key] = i
		}
		for i, m := range c.node.Members {
			if last[m.Key] != i {
				r.note(m.At.Line, "%q appears again on line %d, which clients use instead", m.Key, c.node.Members[last[m.Key]].At.Line)
				continue
			}
			r.entry(c, m.Key, m.At.Line, m.Value)
		}
	case configfile.List:
		for _, item := range c.node.Items {
			name := ""
			for _, key := range []string{"name", "id", "title"} {
				if n, ok := item.Member(key); ok && name == "" {
					name = n.Text
				}
			}
			r.entry(c, name, item.At.Line, item)
		}
	case configfile.Null: // no servers
	default:
		r.note(c.node.At.Line, "the servers are %s, and no mapping", c.node.Kind)
	}
	switch r.builtIn {
	case 0:
	case 1:
		r.note(0, "1 extension is not imported: it is a part of the client, and no MCP server")
	default:
		r.note(0, "%d extensions are not imported: they are parts of the client, and no MCP servers", r.builtIn)
	}
	r.builtIn = 0
}
