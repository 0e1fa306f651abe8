// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cost measures the definitions of tools, which most clients put into the context
// of their model.
package cost

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// Help is the part of the help of tools about --cost.
const Help = `With --cost it prints the size of the tools' definitions, which most clients put into the
context of the model: for each server, or for each tool of the server NAME with the largest
members of its input schema. --json prints all of it. Tokens are a quarter of the bytes; each
model counts differently. With --url, the server of a tool is the part of its name before
"__".`

// Size is the size of JSON text as it is listed.
type Size struct {
	Bytes  int `json:"bytes"`
	Tokens int `json:"tokens"` // approximate
}

// bytesPerToken is an average for JSON with English text. The vocabulary of a tokenizer would
// be larger than the command, and differs between models.
const bytesPerToken = 4

// SizeOf returns the Size of a number of bytes.
func SizeOf(bytes int) Size { return Size{bytes, (bytes + bytesPerToken/2) / bytesPerToken} }

// String returns the number of tokens, in thousands from 100 on.
func (s Size) String() string {
	if s.Tokens < 100 {
		return strconv.Itoa(s.Tokens)
	}
	return fmt.Sprintf("%.1fk", float64(s.Tokens)/1000)
}

// shareOf returns the part of whole in percent.
func (s Size) shareOf(whole int) string {
	percent := 100 * float64(s.Bytes) / float64(max(whole, 1))
	if s.Bytes > 0 && percent < 1 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// costs is the size of the definitions of tools. Everything is sorted by size, the largest
// first.
type costs struct {
	Size

	Servers    []serverCost  `json:"servers"`
	Profiles   []ProfileCost `json:"profiles,omitempty"` // of the gateway, for the costs of everything
	Tools      []Tool        `json:"tools"`
	Duplicates []duplicate   `json:"duplicates"`
	LongNames  []string      `json:"longNames"` // those with more than ShortName characters
}

type serverCost struct {
	Size

	Name  string `json:"name"`
	Count int    `json:"count"`

	largest *Tool
}

// Tool is the size of the definition of a tool.
type Tool struct {
	Size

	Name   string       `json:"name"`
	Server string       `json:"server"`
	Schema []memberCost `json:"schema"` // the members of the input schema

	definition string // without the name, in canonical form
}

// memberCost is the size of a property of an input schema, or of a member of the schema itself,
// such as "$defs".
type memberCost struct {
	Size

	Name string `json:"name"`
}

// duplicate is a definition that several servers have, apart from the name of the tool.
type duplicate struct {
	Size // of one of them

	Servers []string `json:"servers"`
	Tools   []string `json:"tools"`
}

// Some clients reject names with more than ShortName or LongName characters, and count their
// own prefix.
const (
	ShortName = 60
	LongName  = 64
)

// measureTool returns the size of a tool. The server is set by the caller.
func measureTool(raw jsontext.Value) (Tool, error) {
	var t struct {
		Name        string         `json:"name"`
		InputSchema jsontext.Value `json:"inputSchema"`
	}
	if err := control.Decode(raw, &t); err != nil {
		return Tool{}, fmt.Errorf("cannot decode a tool: %w", err)
	}
	return Tool{
		Size:       SizeOf(len(raw)),
		Name:       t.Name,
		Schema:     measureSchema(t.InputSchema),
		definition: canonical(raw),
	}, nil
}

// canonical returns a definition without its name, so that equal definitions are equal text. It
// is empty if there is no such form, for example because a member is repeated.
func canonical(raw jsontext.Value) string {
	var members map[string]jsontext.Value
	if json.Unmarshal(raw, &members) != nil {
		return ""
	}
	delete(members, "name")
	text, err := json.Marshal(members)
	if err != nil || (*jsontext.Value)(&text).Canonicalize() != nil {
		return ""
	}
	return string(text)
}

// measureSchema returns the sizes of the members of an input schema.
func measureSchema(schema jsontext.Value) []memberCost {
	costs := []memberCost{}
	add := func(members map[string]jsontext.Value) {
		for name, value := range members {
			costs = append(costs, memberCost{SizeOf(len(`"":`) + len(name) + len(value)), name})
		}
	}
	// Servers send schemas that are no objects, too. Those have no members.
	var members, properties map[string]jsontext.Value
	if control.Decode(schema, &members) != nil {
		return costs
	}
	if control.Decode(members["properties"], &properties) == nil {
		delete(members, "properties")
		add(properties)
	}
	delete(members, "type") // the same for all tools
	add(members)
	slices.SortFunc(costs, func(a, b memberCost) int { return largerFirst(a.Size, b.Size, a.Name, b.Name) })
	return costs
}

func largerFirst(a, b Size, nameA, nameB string) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(nameA, nameB))
}

// sumCosts returns the costs of tools, which it sorts.
func sumCosts(tools []Tool) *costs {
	slices.SortStableFunc(tools, func(a, b Tool) int { return largerFirst(a.Size, b.Size, a.Name, b.Name) })
	c := &costs{Tools: tools, LongNames: []string{}, Duplicates: duplicates(tools)}
	servers := make(map[string]*serverCost)
	total := 0
	for i := range tools {
		t := &tools[i]
		s := servers[t.Server]
		if s == nil {
			s = &serverCost{Name: t.Server, largest: t}
			servers[t.Server] = s
		}
		s.Count++
		s.Size = SizeOf(s.Bytes + t.Bytes)
		total += t.Bytes
		if utf8.RuneCountInString(t.Name) > ShortName {
			c.LongNames = append(c.LongNames, t.Name)
		}
	}
	c.Size = SizeOf(total)
	c.Servers = make([]serverCost, 0, len(servers))
	for _, s := range servers {
		c.Servers = append(c.Servers, *s)
	}
	slices.SortFunc(c.Servers, func(a, b serverCost) int { return largerFirst(a.Size, b.Size, a.Name, b.Name) })
	return c
}

// duplicates returns the definitions that several servers have.
func duplicates(tools []Tool) []duplicate {
	groups := make(map[string]*duplicate)
	for i := range tools {
		t := &tools[i]
		if t.definition == "" {
			continue
		}
		d := groups[t.definition]
		if d == nil {
			d = &duplicate{Size: t.Size}
			groups[t.definition] = d
		}
		d.Tools = append(d.Tools, t.Name)
		if !slices.Contains(d.Servers, t.Server) {
			d.Servers = append(d.Servers, t.Server)
		}
	}
	maps.DeleteFunc(groups, func(_ string, d *duplicate) bool { return len(d.Servers) == 1 })
	all := make([]duplicate, 0, len(groups))
	for _, d := range groups {
		slices.Sort(d.Servers)
		slices.Sort(d.Tools)
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b duplicate) int { return largerFirst(a.Size, b.Size, a.Tools[0], b.Tools[0]) })
	return all
}

// Show prints the costs of all tools, or of those of the server or tool with a name.
func Show(ctx context.Context, e *command.Env, t *target.Target, name string, asJSON bool) error {
	stop := t.ShowArrivals(ctx, e)
	defer stop()
	tools, err := MeasureTools(ctx, t)
	if err != nil {
		return err
	}
	stop()
	whole := 0
	for i := range tools {
		whole += tools[i].Bytes
	}
	if name != "" {
		tools = slices.DeleteFunc(tools, func(t Tool) bool { return t.Server != name && t.Name != name })
		if len(tools) == 0 {
			return fmt.Errorf("no server with tools and no tool is named %q; 'signalbox tools --cost' lists the servers", name)
		}
	}
	c := sumCosts(tools)
	if name == "" && t.Profile == "" && t.Status != nil {
		s, err := t.Status(ctx)
		if err != nil {
			return fmt.Errorf("read the status of the gateway: %w", err)
		}
		c.Profiles = ProfileCosts(s.Profiles, s.Backends)
	}
	switch {
	case asJSON:
		return e.PrintValue(c)
	case len(tools) == 0:
		fmt.Fprintln(e.Stderr, "no tools")
		return nil
	}
	var b bytes.Buffer
	if name != "" {
		c.writeTools(&b, whole)
	} else {
		c.writeServers(&b)
		c.writeNotes(&b)
	}
	_, err = e.Stdout.Write(b.Bytes())
	return err
}

// MeasureTools returns the costs of all tools of the target.
func MeasureTools(ctx context.Context, t *target.Target) ([]Tool, error) {
	items, err := target.ToolList().Fetch(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("list the tools: %w", err)
	}
	var backends map[string]string
	if t.ToolBackends != nil {
		if backends, err = t.ToolBackends(ctx); err != nil {
			return nil, fmt.Errorf("read the backends of the tools: %w", err)
		}
	}
	only, err := onlyServer(ctx, t)
	if err != nil {
		return nil, err
	}
	tools := make([]Tool, 0, len(items))
	for _, raw := range items {
		tool, err := measureTool(raw)
		if err != nil {
			return nil, err
		}
		server, listed := backends[tool.Name]
		switch {
		case listed && server == "", !listed && backends != nil && isOfSearch(tool.Name):
			tool.Server = gatewayItself
		case only != "": // a profile may have the own names of its server
			tool.Server = only
		case listed:
			tool.Server = server
		default:
			tool.Server = serverByName(t, tool.Name)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

// onlyServer returns the server of a profile that has one, and otherwise "".
func onlyServer(ctx context.Context, t *target.Target) (string, error) {
	if t.Profile == "" || t.Status == nil {
		return "", nil
	}
	s, err := t.Status(ctx)
	if err != nil {
		return "", fmt.Errorf("read the status of the gateway: %w", err)
	}
	if len(s.Backends) != 1 {
		return "", nil
	}
	return s.Backends[0].Name, nil
}

// gatewayItself is in the place of the server of a tool such as find_tool. No server can have this name.
const gatewayItself = "(gateway)"

// isOfSearch reports whether a search view has a tool of the gateway with this name.
func isOfSearch(tool string) bool {
	return tool == catalog.FindTool || tool == catalog.CallTool || tool == catalog.CallToolReadOnly
}

// serverByName returns the server that the name of a tool begins with, as with the default prefix of
// a gateway.
func serverByName(t *target.Target, tool string) string {
	if server, _, ok := strings.Cut(tool, "__"); ok && server != "" {
		return server
	}
	if t.URL != nil {
		return t.URL.Host
	}
	return "unknown"
}

func (c *costs) writeServers(b *bytes.Buffer) {
	rows := [][]string{{"SERVER", "TOOLS", "≈TOKENS", "SHARE", "LARGEST"}}
	for i := range c.Servers {
		s := &c.Servers[i]
		largest := strings.TrimPrefix(s.largest.Name, s.Name+"__") + " " + s.largest.String()
		rows = append(rows, []string{s.Name, strconv.Itoa(s.Count), s.String(), s.shareOf(c.Bytes), largest})
	}
	rows = append(rows, []string{"total", strconv.Itoa(len(c.Tools)), c.String(), "", ProfileLine(c.Profiles)})
	output.WriteColumns(b, rows, 1, 2, 3)
}

// shownMembers is how many members of an input schema are shown.
const shownMembers = 3

func (c *costs) writeTools(b *bytes.Buffer, whole int) {
	rows := [][]string{{"TOOL", "≈TOKENS", "SHARE", "LARGEST IN THE INPUT SCHEMA"}}
	for i := range c.Tools {
		t := &c.Tools[i]
		var members []string
		for _, m := range t.Schema[:min(len(t.Schema), shownMembers)] {
			members = append(members, m.Name+" "+m.String())
		}
		rows = append(rows, []string{t.Name, t.String(), t.shareOf(whole), strings.Join(members, ", ")})
	}
	rows = append(rows, []string{"total", c.String(), c.shareOf(whole), ""})
	output.WriteColumns(b, rows, 1, 2)
}

// writeNotes writes one line for each set of servers with duplicates, one about the size of all, and
// one about long names.
func (c *costs) writeNotes(b *bytes.Buffer) {
	var sets []string
	first, count := make(map[string]*duplicate), make(map[string]int)
	for i := range c.Duplicates {
		set := strings.Join(c.Duplicates[i].Servers, ", ")
		if count[set]++; count[set] == 1 {
			sets, first[set] = append(sets, set), &c.Duplicates[i]
		}
	}
	for _, set := range sets {
		examples := strings.Join(first[set].Tools, ", ")
		if count[set] > 1 {
			examples = "such as " + examples
		}
		fmt.Fprintf(b, "the same except for the name in %s: %s (%s)\n", output.VisibleLine(set), output.Plural(count[set], "tool"), output.VisibleLine(examples))
	}
	if high := new(config.Config).Effective().Search.Above; c.Tokens > high {
		fmt.Fprintf(b, "more than %s tokens, which a client that lists all tools sends to the model; exclude some, or let it search them (signalbox connect CLIENT --view search)  %s\n",
			SizeOf(high*bytesPerToken), code.CostHigh)
	}
	if len(c.LongNames) == 0 {
		return
	}
	fmt.Fprintf(b, "%s with more than %d characters", output.Plural(len(c.LongNames), "name"), ShortName)
	tooLong := 0
	for _, name := range c.LongNames {
		if utf8.RuneCountInString(name) > LongName {
			tooLong++
		}
	}
	if tooLong > 0 {
		fmt.Fprintf(b, ", %d with more than %d", tooLong, LongName)
	}
	b.WriteString(" (signalbox why --long)")
	if tooLong > 0 {
		b.WriteString("  " + code.NameLong)
	}
	b.WriteByte('\n')
}
