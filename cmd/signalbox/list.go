// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// list is one of the lists of an MCP server.
type list struct {
	method, key string // the request, and the member of its result with the items
	noun        string
	name        func(item) string // what call, read or get takes
}

// item has the members of the items of all lists that are shown.
type item struct {
	Name        string `json:"name"`        // of a tool or a prompt; a mere label of a resource
	URI         string `json:"uri"`         // of a resource
	URITemplate string `json:"uriTemplate"` // of a template
	Title       string `json:"title"`       // for people; shown if there is no description
	Description string `json:"description"` // written for models, and often long
}

func byName(it item) string { return it.Name }

// toolList returns the list of tools, which target.awaitBackends uses, too.
func toolList() list {
	return list{"tools/list", "tools", "tool", byName}
}

// promptList returns the list of prompts.
func promptList() list {
	return list{"prompts/list", "prompts", "prompt", byName}
}

// resourceList returns the list of resources.
func resourceList() list {
	return list{"resources/list", "resources", "resource", func(it item) string { return it.URI }}
}

// templateList returns the list of resource templates.
func templateList() list {
	return list{"resources/templates/list", "resourceTemplates", "resource template", func(it item) string { return it.URITemplate }}
}

// newTools returns the command that lists tools, or with --cost their sizes.
func newTools(e *env) *cobra.Command {
	var f listFlags
	var sizes bool
	const short = "List the tools"
	cmd := &cobra.Command{
		Use:   "tools [--cost [NAME]]",
		Short: short,
		Long:  short + ".\n\n" + costHelp + "\n\n" + targetHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if sizes {
				return argsBetween(0, 1, "one NAME of a server or a tool")(cmd, args)
			}
			return argsBetween(0, 0, "none")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), e, func(ctx context.Context, t *target) error {
				if sizes {
					return e.showCost(ctx, t, strings.Join(args, ""), f.json)
				}
				return e.showLists(ctx, t, []list{toolList()}, f.json)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&sizes, "cost", false, "print the size of the definitions, by server, or those of one server or tool")
	return cmd
}

func newPrompts(e *env) *cobra.Command {
	return newList(e, "prompts", "List the prompts", promptList())
}

// newResources returns the command that lists resources and templates, since read takes
// both; only the protocol has separate lists.
func newResources(e *env) *cobra.Command {
	return newList(e, "resources", "List the resources and the resource templates", resourceList(), templateList())
}

// newList returns a command that prints lists, as tables or as JSON.
func newList(e *env, use, short string, lists ...list) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + ".\n\n" + targetHelp,
		Args:  argsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), e, func(ctx context.Context, t *target) error {
				return e.showLists(ctx, t, lists, f.json)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// listFlags are the flags of a command that prints lists.
type listFlags struct {
	targetFlags

	json   bool
	strict bool // all backends must be live
}

func (f *listFlags) add(cmd *cobra.Command) {
	f.targetFlags.add(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the items as JSON, as the servers sent them")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with 3 if the items of a backend are missing because it is not live")
}

// with calls show with the target, and then checks the backends if strict is set.
func (f *listFlags) with(ctx context.Context, e *env, show func(context.Context, *target) error) error {
	if f.strict && f.url != "" {
		return usagef("both --url and --strict; only a gateway of this machine reports its backends")
	}
	return f.targetFlags.with(ctx, e, func(ctx context.Context, t *target) error {
		err := show(ctx, t)
		if err == nil && f.strict {
			err = t.requireLive(ctx)
		}
		return err
	})
}

// isUp reports whether a backend is live, or will be with the next call.
func isUp(b *signalbox.BackendStatus) bool {
	return b.State == "live" || b.State == "idle" || b.State == "kept"
}

// requireLive returns an error if a backend of the gateway is not live.
func (t *target) requireLive(ctx context.Context) error {
	s, err := t.status(ctx)
	if err != nil {
		return fmt.Errorf("read the status of the gateway: %w", err)
	}
	var missing []string
	for i := range s.Backends {
		if b := &s.Backends[i]; !isUp(b) {
			missing = append(missing, b.Name)
		}
	}
	if missing != nil {
		return strictf("%s not live: %s", plural(len(missing), "backend"), strings.Join(missing, ", "))
	}
	return nil
}

// arrivalInterval is how often showArrivals looks at the backends.
const arrivalInterval = 100 * time.Millisecond

// showArrivals prints each backend as its lists arrive, if standard error is a terminal and the
// gateway was started for the command. stop prints those that have arrived last, and returns
// when nothing more is printed.
func (e *env) showArrivals(ctx context.Context, t *target) (stop func()) {
	if !t.isNew || !e.Terminal(e.Stderr) {
		return func() {}
	}
	started := time.Now()
	shown := make(map[string]bool)
	show := func() {
		s, err := t.status(ctx)
		if err != nil {
			return // target.warn reports it
		}
		for i := range s.Backends {
			b := &s.Backends[i]
			if !isUp(b) || shown[b.Name] {
				continue
			}
			shown[b.Name] = true
			e.printError(fmt.Sprintf("%s: %s, %.1f s", b.Name, itemCounts(b), time.Since(started).Seconds()))
		}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(done)
		tick := time.NewTicker(arrivalInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show()
			case <-ended:
				show()
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-done
	})
}

// itemCounts describes the lists of a backend.
func itemCounts(b *signalbox.BackendStatus) string {
	var counts []string
	for _, c := range []struct {
		n    int
		noun string
	}{{b.Tools, "tool"}, {b.Resources, "resource"}, {b.Templates, "template"}, {b.Prompts, "prompt"}} {
		if c.n > 0 {
			counts = append(counts, plural(c.n, c.noun))
		}
	}
	if counts == nil {
		return "no items"
	}
	return strings.Join(counts, ", ")
}

// showLists fetches and prints complete lists.
func (e *env) showLists(ctx context.Context, t *target, lists []list, asJSON bool) error {
	stop := e.showArrivals(ctx, t)
	defer stop()
	// Everything is fetched before anything is printed, so that a command that fails does
	// not print a part that could be taken for the whole.
	found := make([][]jsontext.Value, len(lists))
	for i, l := range lists {
		var err error
		if found[i], err = l.fetch(ctx, t); err != nil {
			return fmt.Errorf("list the %ss: %w", l.noun, err)
		}
	}
	stop()
	if asJSON {
		return e.printJSON(joinLists(lists, found))
	}
	return e.printTable(lists, found)
}

const maxPages = 1000

// fetch returns all items. A server that does not have the method has none.
func (l list) fetch(ctx context.Context, t mcp.Handler) ([]jsontext.Value, error) {
	var all []jsontext.Value
	var cursor []byte
	// Repeated cursors are not detected: a server may use the same one for different
	// pages, and maxPages ends a loop.
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

// page fetches the page at a cursor, and returns the cursor of the next one, or nil.
// Cursors are JSON strings, passed unmodified.
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
		return nil, nil, fmt.Errorf("cannot decode the response: %w", err)
	}
	if err := decode(members[l.key], &items); err != nil {
		return nil, nil, fmt.Errorf("member %q of the response is not a list: %w", l.key, err)
	}
	// Only a string is a cursor. Some servers send null on the last page.
	if _, ok := res.Text(mcp.FieldNextCursor); ok {
		next = res.Raw(mcp.FieldNextCursor)
	}
	return items, next, nil
}

// decode decodes a server's JSON leniently: checking it is left to the client.
func decode(text []byte, into any) error {
	return json.Unmarshal(text, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// joinLists returns one object with the lists, one item to a line.
func joinLists(lists []list, found [][]jsontext.Value) []byte {
	b := bytes.NewBufferString("{")
	for i, l := range lists {
		if i > 0 {
			b.WriteString(",\n ")
		}
		fmt.Fprintf(b, "%q: [", l.key)
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

// printTable prints one item to a line. Hidden characters are escaped even if standard
// output is no terminal: they would break the table.
func (e *env) printTable(lists []list, found [][]jsontext.Value) error {
	for i, l := range lists {
		if len(found[i]) == 0 {
			// An empty output alone could be taken for a failure.
			fmt.Fprintf(e.Stderr, "no %ss\n", l.noun)
			continue
		}
		rows, width := make([][2]string, 0, len(found[i])), 0
		for _, raw := range found[i] {
			var it item
			// An invalid item fails the list, as the cause of a missing item would be hard to
			// find.
			if err := decode(raw, &it); err != nil {
				return fmt.Errorf("cannot decode a %s: %w", l.noun, err)
			}
			name := visibleLine(l.name(it))
			rows = append(rows, [2]string{name, it.summary()})
			width = max(width, min(utf8.RuneCountInString(name), maxColumn))
		}
		var b bytes.Buffer
		for _, row := range rows {
			fmt.Fprintf(&b, "%-*s  %s\n", width, row[0], row[1])
		}
		if _, err := e.Stdout.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// summaryLength is how much of a description is shown beside the name.
const summaryLength = 100

func (it item) summary() string {
	text := it.Description
	if text == "" {
		text = it.Title
	}
	return shorten(visibleLine(text), summaryLength)
}

// noCaller is the mcp.Caller of a request without notifications and questions.
type noCaller struct{}

func (noCaller) Notify(context.Context, *mcp.Notification) error { return nil }

// Start fails, so that a server that asks during a list does not wait for an
// answer.
func (noCaller) Start(_ context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the command line cannot answer %s during this request", req.Method)
}

func (noCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }
