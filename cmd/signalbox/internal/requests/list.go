// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests has the commands that make requests to a gateway or a server: tools,
// resources, prompts, call and read. It prints their results, and answers questions of the
// server on a terminal.
package requests

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/cost"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
)

// NewTools returns the command that lists tools, or with --cost their sizes.
func NewTools(e *command.Env) *cobra.Command {
	var f listFlags
	var sizes bool
	const short = "List the tools"
	cmd := &cobra.Command{
		Use:   "tools [--cost [NAME]]",
		Short: short,
		Long:  short + ".\n\n" + cost.Help + "\n\n" + target.Help,
		Args: func(cmd *cobra.Command, args []string) error {
			if sizes {
				return command.ArgsBetween(0, 1, "one NAME of a server or a tool")(cmd, args)
			}
			return command.ArgsBetween(0, 0, "none")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), e, func(ctx context.Context, t *target.Target) error {
				if sizes {
					return cost.Show(ctx, e, t, strings.Join(args, ""), f.json)
				}
				return showLists(ctx, e, t, []target.List{target.ToolList()}, f.json)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&sizes, "cost", false, "print the size of the definitions, by server, or those of one server or tool")
	return cmd
}

// NewPrompts returns the command that lists prompts.
func NewPrompts(e *command.Env) *cobra.Command {
	return newList(e, "prompts", "List the prompts", target.PromptList())
}

// NewResources returns the command that lists resources and templates, since read takes
// both; only the protocol has separate lists.
func NewResources(e *command.Env) *cobra.Command {
	return newList(e, "resources", "List the resources and the resource templates", target.ResourceList(), target.TemplateList())
}

// newList returns a command that prints lists, as tables or as JSON.
func newList(e *command.Env, use, short string, lists ...target.List) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + ".\n\n" + target.Help,
		Args:  command.ArgsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), e, func(ctx context.Context, t *target.Target) error {
				return showLists(ctx, e, t, lists, f.json)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// listFlags are the flags of a command that prints lists.
type listFlags struct {
	target.Flags

	json   bool
	strict bool // all backends must be live
}

func (f *listFlags) add(cmd *cobra.Command) {
	f.Add(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the items as JSON, as the servers sent them")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with 3 if the items of a backend are missing because it is not live")
}

// with calls show with the target, and then checks the backends if strict is set.
func (f *listFlags) with(ctx context.Context, e *command.Env, show func(context.Context, *target.Target) error) error {
	if f.strict && f.URL != "" {
		return command.Usagef("both --url and --strict; only a gateway of this machine reports its backends")
	}
	return f.With(ctx, e, func(ctx context.Context, t *target.Target) error {
		err := show(ctx, t)
		if err == nil && f.strict {
			err = t.RequireLive(ctx)
		}
		return err
	})
}

// showLists fetches and prints complete lists.
func showLists(ctx context.Context, e *command.Env, t *target.Target, lists []target.List, asJSON bool) error {
	stop := t.ShowArrivals(ctx, e)
	defer stop()
	// Everything is fetched before anything is printed, so that a command that fails does
	// not print a part that could be taken for the whole.
	found := make([][]jsontext.Value, len(lists))
	for i, l := range lists {
		var err error
		if found[i], err = l.Fetch(ctx, t); err != nil {
			return fmt.Errorf("list the %ss: %w", l.Noun, err)
		}
	}
	stop()
	if asJSON {
		return e.PrintJSON(joinLists(lists, found))
	}
	return printTable(e, lists, found)
}

// joinLists returns one object with the lists, one item to a line.
func joinLists(lists []target.List, found [][]jsontext.Value) []byte {
	b := bytes.NewBufferString("{")
	for i, l := range lists {
		if i > 0 {
			b.WriteString(",\n ")
		}
		fmt.Fprintf(b, "%q: [", l.Key)
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
func printTable(e *command.Env, lists []target.List, found [][]jsontext.Value) error {
	for i, l := range lists {
		if len(found[i]) == 0 {
			// An empty output alone could be taken for a failure.
			fmt.Fprintf(e.Stderr, "no %ss\n", l.Noun)
			continue
		}
		rows := make([][]string, 0, len(found[i]))
		for _, raw := range found[i] {
			var it target.Item
			// An invalid item fails the list, as the cause of a missing item would be hard to
			// find.
			if err := control.Decode(raw, &it); err != nil {
				return fmt.Errorf("cannot decode a %s: %w", l.Noun, err)
			}
			rows = append(rows, []string{l.Name(it), it.Summary()})
		}
		if err := e.PrintTable(rows); err != nil {
			return err
		}
	}
	return nil
}
