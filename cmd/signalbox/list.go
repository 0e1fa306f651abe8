// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// list is one of the lists that servers have.
type list struct {
	method, key string // the request, and where the items stand in its result
	noun        string
	name        func(item) string // what is called, read or got
}

// item is what is shown of the items of all lists.
type item struct {
	Name        string `json:"name"`        // of a tool or a prompt, and for resources a mere label
	URI         string `json:"uri"`         // of a resource
	URITemplate string `json:"uriTemplate"` // of a template
	Title       string `json:"title"`       // for people, where there is no description
	Description string `json:"description"` // written for models, and often long
}

// byName is the name of an item that is called or got by its name.
func byName(it item) string { return it.Name }

// toolList is the list that a call waits for too: see target.ready.
func toolList() list {
	return list{"tools/list", "tools", "tool", byName}
}

// newTools makes the command that lists tools.
func newTools(e *env) *cobra.Command {
	return newList(e, "tools", "List the tools", toolList())
}

// newPrompts makes the command that lists prompts.
func newPrompts(e *env) *cobra.Command {
	return newList(e, "prompts", "List the prompts", list{"prompts/list", "prompts", "prompt", byName})
}

// newResources makes the command that lists resources. Templates stand among
// them, since both are what read takes; only the protocol lists them apart.
func newResources(e *env) *cobra.Command {
	return newList(e, "resources", "List the resources and the resource templates",
		list{"resources/list", "resources", "resource", func(it item) string { return it.URI }},
		list{"resources/templates/list", "resourceTemplates", "resource template", func(it item) string { return it.URITemplate }})
}

// newList makes a command that prints lists, for people or as JSON.
func newList(e *env, use, short string, lists ...list) *cobra.Command {
	var f targetFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  argsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), e, func(ctx context.Context, t *target) error {
				return e.showLists(ctx, t, lists, asJSON)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the items as JSON, as the servers gave them")
	return cmd
}

// showLists prints whole lists.
func (e *env) showLists(ctx context.Context, t mcp.Handler, lists []list, asJSON bool) error {
	// All of it is fetched before anything is printed, so that a command that
	// fails has printed nothing that passes for the whole.
	found := make([][]jsontext.Value, len(lists))
	for i, l := range lists {
		var err error
		if found[i], err = l.fetch(ctx, t); err != nil {
			return fmt.Errorf("list the %ss: %w", l.noun, err)
		}
	}
	if asJSON {
		return e.printJSON(joinLists(lists, found))
	}
	return e.printTable(lists, found)
}

// maxPages bounds a list whose pages do not end.
const maxPages = 1000

// fetch returns all items. A server that does not have the method has none.
func (l list) fetch(ctx context.Context, t mcp.Handler) ([]jsontext.Value, error) {
	var all []jsontext.Value
	var cursor []byte
	// A cursor that comes again is not looked for: servers may give the same one
	// for another page, and the bound ends a loop all the same.
	for range maxPages {
		page, next, err := l.page(ctx, t, cursor)
		if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if cursor = next; cursor == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("the list did not end after %d pages", maxPages)
}

// page fetches the page at a cursor, and returns the cursor of the next one, or
// nil. Cursors stay the JSON strings that they are.
func (l list) page(ctx context.Context, t mcp.Handler, cursor []byte) (items []jsontext.Value, next []byte, err error) {
	params := []byte("{}")
	if cursor != nil {
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	req, err := request(l.method, params)
	if err != nil {
		return nil, nil, err
	}
	res, err := t.Serve(ctx, req, noCaller{})
	if err != nil {
		return nil, nil, err
	}
	var members map[string]jsontext.Value
	if err := decode(res.Bytes(), &members); err != nil {
		return nil, nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if err := decode(members[l.key], &items); err != nil {
		return nil, nil, fmt.Errorf("the answer's %q is no list: %w", l.key, err)
	}
	// A cursor of another kind than a string, such as the null that some servers
	// send on the last page, is none.
	if _, ok := res.Text(mcp.FieldNextCursor); ok {
		next = res.Raw(mcp.FieldNextCursor)
	}
	return items, next, nil
}

// decode reads what a server wrote, without judging it: that is for the client
// that depends on it.
func decode(text []byte, into any) error {
	return json.Unmarshal(text, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// joinLists makes one object of the lists, one item to a line.
func joinLists(lists []list, found [][]jsontext.Value) []byte {
	var b bytes.Buffer
	for i, l := range lists {
		b.WriteString(map[bool]string{true: "{", false: ",\n "}[i == 0])
		fmt.Fprintf(&b, "%q: [", l.key)
		for j, it := range found[i] {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString("\n  ")
			b.Write(it)
		}
		b.WriteByte(']')
	}
	b.WriteByte('}')
	return b.Bytes()
}

// printTable prints one item to a line. Here hidden characters are made visible
// whatever standard output is: they would break the table.
func (e *env) printTable(lists []list, found [][]jsontext.Value) error {
	for i, l := range lists {
		if len(found[i]) == 0 {
			// Said, and not an empty output alone: people take that for a failure.
			fmt.Fprintf(e.Stderr, "no %ss\n", l.noun)
			continue
		}
		w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
		for _, raw := range found[i] {
			var it item
			// One item that is none fails the list: left out in silence it would be
			// searched for at the wrong end.
			if err := decode(raw, &it); err != nil {
				return fmt.Errorf("a %s cannot be read: %w", l.noun, err)
			}
			fmt.Fprintf(w, "%s\t%s\n", visibleLine(l.name(it)), it.about())
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// aboutLength is how much of a description is shown: what fits beside a name.
const aboutLength = 100

// about returns the description in short, or else the title.
func (it item) about() string {
	text := it.Description
	if text == "" {
		text = it.Title
	}
	return shorten(visibleLine(text), aboutLength)
}

// noCaller is the other end of a request that has nothing to be told or asked.
type noCaller struct{}

// Notify drops what is said: nobody asked to hear it.
func (noCaller) Notify(context.Context, *mcp.Notification) error { return nil }

// Ask refuses at once, so that a server which asks during a list does not wait for
// an answer that cannot come.
func (noCaller) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "nobody answers %s here", req.Method)
}
