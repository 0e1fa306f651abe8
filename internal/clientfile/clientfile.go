// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clientfile writes the gateway's own entry into the files of MCP clients, and takes
// it out again. The rest of a file keeps its bytes, as package configedit promises.
//
// The entry is named [Name]. It has the URL of the gateway, or for a client that can only
// start programs a command. It is written in the client's dialect: the keys differ, and one
// client has a list instead of a map.
package clientfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// Name is the name of the gateway's entry in the files of clients.
const Name = "signalbox"

// Gateway is how clients reach the gateway: by its URL, or if that is empty by a program.
type Gateway struct {
	URL     string
	Command string
	Args    []string
}

// File is a file of a client. Its methods do not modify Text, and their errors are those of
// package configedit, with line and column.
type File struct {
	Client clients.Client
	Path   string
	Text   []byte
}

// SpeaksHTTP reports whether a client is known to use servers on HTTP.
func SpeaksHTTP(c clients.Client) bool { return slices.Contains(c.Transports.Value, clients.HTTP) }

// Connect returns the text with an entry for the gateway. An entry that is there is replaced.
func (f File) Connect(g Gateway) ([]byte, error) {
	p, err := f.place()
	if err != nil {
		return nil, err
	}
	if p.found {
		if f.Text, err = p.remove(Name, p.index); err != nil {
			return nil, err
		}
		if p, err = f.place(); err != nil {
			return nil, err
		}
	}
	return p.add(g.Entry(f.Client))
}

// Disconnect returns the text without the entry for the gateway.
func (f File) Disconnect() ([]byte, error) {
	p, err := f.place()
	if err != nil {
		return nil, err
	}
	if !p.found {
		return f.Text, nil
	}
	return p.remove(Name, p.index)
}

// Hash identifies the content of the entry for the gateway, without regard to its style and
// to the order of its keys: clients rewrite their files. It is "" without one.
func (f File) Hash() (string, error) {
	p, err := f.place()
	if err != nil || !p.found {
		return "", err
	}
	return hash(p.entry), nil
}

// Gateway returns how the entry for the gateway reaches it, as far as the entry has the keys
// of [Gateway.Entry]. found is whether there is an entry.
func (f File) Gateway() (g Gateway, found bool, err error) {
	p, err := f.place()
	if err != nil || !p.found {
		return Gateway{}, false, err
	}
	for _, m := range p.entry.Members {
		switch m.Key {
		case "url", "serverUrl", "httpUrl", "uri":
			g.URL = m.Value.Text
		case "command", "cmd":
			g.Command = m.Value.Text
			for _, item := range m.Value.Items { // OpenCode
				g.Args = append(g.Args, item.Text)
			}
		case "args":
			for _, item := range m.Value.Items {
				g.Args = append(g.Args, item.Text)
			}
		}
	}
	if p.client.Dialect == clients.OpenCode && len(g.Args) > 0 {
		g.Command, g.Args = g.Args[0], g.Args[1:]
	}
	return g, true, nil
}

// Server is an entry of a file: its name, and the line of its key or of its item.
type Server struct {
	Name string
	Line int
}

// SetAside disables servers, by the key that the client has for that, or else removes them.
// disabled and removed are the names of the two kinds. A server that is not where the client
// reads its own servers, such as one of a project in the same file, is left alone.
func (f File) SetAside(servers []Server) (text []byte, disabled, removed []string, err error) {
	p, err := f.place()
	if err != nil {
		return nil, nil, nil, err
	}
	// From the end on: the items and lines before a change stay as they are.
	backward := func(a, b Server) int { return cmp.Compare(b.Line, a.Line) }
	for _, s := range slices.SortedFunc(slices.Values(servers), backward) {
		index := slices.IndexFunc(p.servers, func(at Server) bool { return at == s })
		if index < 0 || s.Name == Name {
			continue
		}
		if off := p.off(); off.Key != "" {
			if text, err := p.file.SetAt(append(slices.Clone(p.path), s.Name), off.Key, off.Value); err == nil {
				p.file.Text = text
				disabled = append(disabled, s.Name)
				continue
			}
		}
		if p.file.Text, err = p.remove(s.Name, index); err != nil {
			return nil, nil, nil, err
		}
		removed = append(removed, s.Name)
	}
	slices.Reverse(disabled)
	slices.Reverse(removed)
	return p.file.Text, disabled, removed, nil
}

// place is where a file has its servers.
type place struct {
	client  clients.Client
	file    configedit.File
	path    []string
	list    bool
	servers []Server

	found bool
	index int // of the gateway's entry
	entry configfile.Node
}

func (f File) place() (*place, error) {
	p := &place{
		client: f.Client,
		file:   configedit.File{Name: f.Path, Text: f.Text, Foreign: true},
		path:   []string{f.Client.Key},
		list:   f.Client.Dialect == clients.Continue,
	}
	root, err := p.file.Tree()
	if err != nil {
		return nil, err
	}
	if f.Client.Dialect == clients.OpenCode && isSecondVersion(root) {
		p.path = append(p.path, "servers")
	}
	servers := root
	for _, key := range p.path {
		servers, _ = servers.Member(key)
	}
	for i, m := range servers.Members {
		p.note(i, m.Key, m.At.Line, m.Value)
	}
	for i, item := range servers.Items {
		name, _ := item.Member("name")
		p.note(i, name.Text, item.At.Line, item)
	}
	return p, nil
}

// note notes a server of the file.
func (p *place) note(index int, name string, line int, entry configfile.Node) {
	p.servers = append(p.servers, Server{name, line})
	if name == Name {
		p.found, p.index, p.entry = true, index, entry
	}
}

// isSecondVersion reports whether a file of OpenCode has the servers one level deeper, as
// from version 2 on. A file without servers is taken as one.
func isSecondVersion(root configfile.Node) bool {
	mcp, found := root.Member("mcp")
	servers, nested := mcp.Member("servers")
	_, isServer := servers.Member("type")
	return !found || len(mcp.Members) == 0 || nested && !isServer
}

// add adds the gateway's entry, which is absent.
func (p *place) add(entry configedit.Entry) ([]byte, error) {
	if p.list {
		return p.file.AppendTo(p.path, entry)
	}
	return p.file.InsertAt(append(slices.Clone(p.path), Name), entry)
}

// remove removes a server.
func (p *place) remove(name string, index int) ([]byte, error) {
	if p.list {
		return p.file.DeleteFrom(p.path, index)
	}
	return p.file.DeleteAt(append(slices.Clone(p.path), name))
}

// off returns how the client disables a server, if it can.
func (p *place) off() clients.Switch {
	if p.list || p.client.Dialect == clients.OpenCode && len(p.path) > 1 {
		return clients.Switch{}
	}
	return p.client.Off.Value
}

// Entry returns the entry of the gateway in the dialect of a client.
func (g Gateway) Entry(c clients.Client) configedit.Entry {
	if g.URL == "" {
		return g.program(c)
	}
	url := configedit.Field{Key: "url", Value: g.URL}
	kind := func(text string) configedit.Field { return configedit.Field{Key: "type", Value: text} }
	switch c.Dialect {
	case clients.Claude, clients.VSCode, clients.Crush, clients.AmazonQ:
		return configedit.Entry{kind("http"), url}
	case clients.Copilot:
		return configedit.Entry{kind("http"), url, {Key: "tools", Value: []string{"*"}}}
	case clients.Windsurf:
		return configedit.Entry{{Key: "serverUrl", Value: g.URL}}
	case clients.Gemini:
		return configedit.Entry{{Key: "httpUrl", Value: g.URL}}
	case clients.Zed: // earlier versions require the source
		return configedit.Entry{{Key: "source", Value: "custom"}, url}
	case clients.Cline:
		return configedit.Entry{kind("streamableHttp"), url}
	case clients.Continue:
		return configedit.Entry{{Key: "name", Value: Name}, kind("streamable-http"), url}
	case clients.Goose:
		return append(goose("streamable_http"), configedit.Field{Key: "uri", Value: g.URL})
	case clients.OpenCode:
		return configedit.Entry{kind("remote"), url}
	default:
		return configedit.Entry{url}
	}
}

// program returns the entry of a client that starts a program.
func (g Gateway) program(c clients.Client) configedit.Entry {
	start := configedit.Entry{{Key: "command", Value: g.Command}, {Key: "args", Value: g.Args}}
	with := func(before ...configedit.Field) configedit.Entry { return append(before, start...) }
	switch c.Dialect {
	case clients.VSCode, clients.Crush:
		return with(configedit.Field{Key: "type", Value: "stdio"})
	case clients.Copilot:
		return append(with(configedit.Field{Key: "type", Value: "local"}), configedit.Field{Key: "tools", Value: []string{"*"}})
	case clients.Zed:
		return with(configedit.Field{Key: "source", Value: "custom"})
	case clients.Continue:
		return with(configedit.Field{Key: "name", Value: Name}, configedit.Field{Key: "type", Value: "stdio"})
	case clients.Goose:
		return append(goose("stdio"), configedit.Field{Key: "cmd", Value: g.Command}, configedit.Field{Key: "args", Value: g.Args})
	case clients.OpenCode:
		return configedit.Entry{{Key: "type", Value: "local"}, {Key: "command", Value: slices.Concat([]string{g.Command}, g.Args)}}
	default:
		return start
	}
}

// goose returns what every extension of goose has.
func goose(kind string) configedit.Entry {
	return configedit.Entry{{Key: "name", Value: Name}, {Key: "enabled", Value: true}, {Key: "timeout", Value: 300}, {Key: "type", Value: kind}}
}

// HashOf returns the Hash of a file in which a Gateway is connected.
func (g Gateway) HashOf(c clients.Client) (string, error) {
	f := File{Client: c, Path: nameOf(c)}
	text, err := f.Connect(g)
	if err != nil {
		return "", err
	}
	f.Text = text
	return f.Hash()
}

// nameOf returns a name in the syntax of a client's files.
func nameOf(c clients.Client) string {
	switch c.Dialect {
	case clients.Continue, clients.Goose:
		return "x.yaml"
	case clients.Codex:
		return "x.toml"
	default:
		return "x.json"
	}
}

// hash returns the hash of a value, with sorted keys.
func hash(n configfile.Node) string {
	var b strings.Builder
	write(&b, n)
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

func write(b *strings.Builder, n configfile.Node) {
	fmt.Fprintf(b, "%d%s", n.Kind, strconv.Quote(n.Text))
	for _, item := range n.Items {
		b.WriteByte('[')
		write(b, item)
	}
	members := slices.Clone(n.Members)
	slices.SortStableFunc(members, func(a, b configfile.Member) int { return cmp.Compare(a.Key, b.Key) })
	for _, m := range members {
		b.WriteString("{" + strconv.Quote(m.Key))
		write(b, m.Value)
	}
}
