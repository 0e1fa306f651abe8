// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// costHelp is the part of the help of tools about --cost.
const costHelp = `With --cost it prints the size of the tools' definitions, which most clients put into the
context of the model: for each server, or for each tool of the server NAME with the largest
members of its input schema. --json prints all of it. Tokens are a quarter of the bytes; each
model counts differently. With --url, the server of a tool is the part of its name before
"__".`

// size is the size of JSON text as it is listed.
type size struct {
	Bytes  int `json:"bytes"`
	Tokens int `json:"tokens"` // approximate
}

// bytesPerToken is an average for JSON with English text. The vocabulary of a tokenizer would
// be larger than the command, and differs between models.
const bytesPerToken = 4

func sizeOf(bytes int) size { return size{bytes, (bytes + bytesPerToken/2) / bytesPerToken} }

// String returns the number of tokens, in thousands from 100 on.
func (s size) String() string {
	if s.Tokens < 100 {
		return strconv.Itoa(s.Tokens)
	}
	return fmt.Sprintf("%.1fk", float64(s.Tokens)/1000)
}

// shareOf returns the part of whole in percent.
func (s size) shareOf(whole int) string {
	percent := 100 * float64(s.Bytes) / float64(max(whole, 1))
	if s.Bytes > 0 && percent < 1 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// costs is the size of the definitions of tools. Everything is sorted by size, the largest
// first.
type costs struct {
	size

	Servers    []serverCost  `json:"servers"`
	Profiles   []profileCost `json:"profiles,omitempty"` // of the gateway, for the costs of everything
	Tools      []toolCost    `json:"tools"`
	Duplicates []duplicate   `json:"duplicates"`
	LongNames  []string      `json:"longNames"` // those with more than shortName characters
}

type serverCost struct {
	size

	Name  string `json:"name"`
	Count int    `json:"count"`

	largest *toolCost
}

type toolCost struct {
	size

	Name   string       `json:"name"`
	Server string       `json:"server"`
	Schema []memberCost `json:"schema"` // the members of the input schema

	definition string // without the name, in canonical form
}

// memberCost is the size of a property of an input schema, or of a member of the schema itself,
// such as "$defs".
type memberCost struct {
	size

	Name string `json:"name"`
}

// duplicate is a definition that several servers have, apart from the name of the tool.
type duplicate struct {
	size // of one of them

	Servers []string `json:"servers"`
	Tools   []string `json:"tools"`
}

// Some clients reject names with more than shortName or longName characters, and count their
// own prefix.
const shortName, longName = 60, 64

// measureTool returns the size of a tool. The server is set by the caller.
func measureTool(raw jsontext.Value) (toolCost, error) {
	var t struct {
		Name        string         `json:"name"`
		InputSchema jsontext.Value `json:"inputSchema"`
	}
	if err := decode(raw, &t); err != nil {
		return toolCost{}, fmt.Errorf("cannot decode a tool: %w", err)
	}
	return toolCost{
		size:       sizeOf(len(raw)),
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
			costs = append(costs, memberCost{sizeOf(len(`"":`) + len(name) + len(value)), name})
		}
	}
	// Servers send schemas that are no objects, too. Those have no members.
	var members, properties map[string]jsontext.Value
	if decode(schema, &members) != nil {
		return costs
	}
	if decode(members["properties"], &properties) == nil {
		delete(members, "properties")
		add(properties)
	}
	delete(members, "type") // the same for all tools
	add(members)
	slices.SortFunc(costs, func(a, b memberCost) int { return largerFirst(a.size, b.size, a.Name, b.Name) })
	return costs
}

func largerFirst(a, b size, nameA, nameB string) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(nameA, nameB))
}

// sumCosts returns the costs of tools, which it sorts.
func sumCosts(tools []toolCost) *costs {
	slices.SortStableFunc(tools, func(a, b toolCost) int { return largerFirst(a.size, b.size, a.Name, b.Name) })
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
		s.size = sizeOf(s.Bytes + t.Bytes)
		total += t.Bytes
		if utf8.RuneCountInString(t.Name) > shortName {
			c.LongNames = append(c.LongNames, t.Name)
		}
	}
	c.size = sizeOf(total)
	c.Servers = make([]serverCost, 0, len(servers))
	for _, s := range servers {
		c.Servers = append(c.Servers, *s)
	}
	slices.SortFunc(c.Servers, func(a, b serverCost) int { return largerFirst(a.size, b.size, a.Name, b.Name) })
	return c
}

// duplicates returns the definitions that several servers have.
func duplicates(tools []toolCost) []duplicate {
	groups := make(map[string]*duplicate)
	for i := range tools {
		t := &tools[i]
		if t.definition == "" {
			continue
		}
		d := groups[t.definition]
		if d == nil {
			d = &duplicate{size: t.size}
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
	slices.SortFunc(all, func(a, b duplicate) int { return largerFirst(a.size, b.size, a.Tools[0], b.Tools[0]) })
	return all
}

// showCost prints the costs of all tools, or of those of the server or tool with a name.
func (e *env) showCost(ctx context.Context, t *target, name string, asJSON bool) error {
	stop := e.showArrivals(ctx, t)
	defer stop()
	tools, err := t.measureTools(ctx)
	if err != nil {
		return err
	}
	stop()
	whole := 0
	for i := range tools {
		whole += tools[i].Bytes
	}
	if name != "" {
		tools = slices.DeleteFunc(tools, func(t toolCost) bool { return t.Server != name && t.Name != name })
		if len(tools) == 0 {
			return fmt.Errorf("no server with tools and no tool is named %q; 'signalbox tools --cost' lists the servers", name)
		}
	}
	c := sumCosts(tools)
	if name == "" && t.profile == "" && t.status != nil {
		s, err := t.status(ctx)
		if err != nil {
			return fmt.Errorf("read the status of the gateway: %w", err)
		}
		c.Profiles = costsOf(s.Profiles)
	}
	switch {
	case asJSON:
		text, err := json.Marshal(c, jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  "))
		if err != nil {
			return err
		}
		return e.printJSON(text)
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

// measureTools returns the costs of all tools of the target.
func (t *target) measureTools(ctx context.Context) ([]toolCost, error) {
	items, err := toolList().fetch(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("list the tools: %w", err)
	}
	var backends map[string]string
	if t.toolBackends != nil {
		if backends, err = t.toolBackends(ctx); err != nil {
			return nil, fmt.Errorf("read the backends of the tools: %w", err)
		}
	}
	tools := make([]toolCost, 0, len(items))
	for _, raw := range items {
		tool, err := measureTool(raw)
		if err != nil {
			return nil, err
		}
		tool.Server = cmp.Or(backends[tool.Name], t.serverByName(tool.Name))
		tools = append(tools, tool)
	}
	return tools, nil
}

// serverByName returns the server that the name of a tool begins with, as with the default prefix of
// a gateway.
func (t *target) serverByName(tool string) string {
	if server, _, ok := strings.Cut(tool, "__"); ok && server != "" {
		return server
	}
	if t.url != nil {
		return t.url.Host
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
	rows = append(rows, []string{"total", strconv.Itoa(len(c.Tools)), c.String(), "", profileLine(c.Profiles)})
	writeColumns(b, rows, 1, 2, 3)
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
	writeColumns(b, rows, 1, 2)
}

// writeNotes writes one line for each set of servers with duplicates, and one about long names.
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
		fmt.Fprintf(b, "the same except for the name in %s: %s (%s)\n", visibleLine(set), plural(count[set], "tool"), visibleLine(examples))
	}
	if len(c.LongNames) == 0 {
		return
	}
	fmt.Fprintf(b, "%s with more than %d characters", plural(len(c.LongNames), "name"), shortName)
	tooLong := 0
	for _, name := range c.LongNames {
		if utf8.RuneCountInString(name) > longName {
			tooLong++
		}
	}
	if tooLong > 0 {
		fmt.Fprintf(b, ", %d with more than %d", tooLong, longName)
	}
	b.WriteString(" (signalbox why --long)")
	if tooLong > 0 {
		b.WriteString("  " + code.NameLong)
	}
	b.WriteByte('\n')
}

// writeColumns writes rows with aligned columns. The columns in right are aligned to the right.
func writeColumns(b *bytes.Buffer, rows [][]string, right ...int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = visibleLine(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			width := -widths[i]
			if slices.Contains(right, i) {
				width = widths[i]
			}
			fmt.Fprintf(&line, "%*s", width, cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
