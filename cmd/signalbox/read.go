// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// readFlags are what a command line says about a resource.
type readFlags struct {
	targetFlags
	json   bool   // the whole result
	output string // the file for the contents; empty for standard output
}

// newRead makes the command that reads a resource.
func newRead(e *env) *cobra.Command {
	var f readFlags
	cmd := &cobra.Command{
		Use:   "read URI",
		Short: "Read a resource",
		Long: `Read a resource and print its text as it is. What is no text is written to a file
with --output, or printed with --json.`,
		Args: argsBetween(1, 1, "one URI"),
		RunE: func(cmd *cobra.Command, args []string) error { return e.read(cmd.Context(), &f, args[0]) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole result as JSON, as the server gave it")
	cmd.Flags().VarP(wordFlag{&f.output}, "output", "o", "write the contents to this `FILE`")
	return cmd
}

// read prints a resource, or saves it. JSON goes to standard output and nowhere
// else, so that --output always means the contents.
func (e *env) read(ctx context.Context, f *readFlags, uri string) error {
	if f.json && f.output != "" {
		return usagef("both --json and --output; choose one")
	}
	return f.with(ctx, e, func(ctx context.Context, t *target) error {
		res, err := readResource(ctx, t, uri)
		if err == nil {
			err = e.showContents(f, res)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", uri, err)
		}
		return nil
	})
}

// readResource asks for a resource once the backends are heard of: which of them
// owns a URI is known from their lists and from nothing else.
func readResource(ctx context.Context, t *target, uri string) (*mcp.Result, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	params := append([]byte(`{"uri":`), mcp.AppendString(nil, uri)...)
	req, err := request("resources/read", append(params, '}'))
	if err != nil {
		return nil, err
	}
	return t.Serve(ctx, req, noCaller{})
}

// showContents shows a result in the one way that the flags choose.
func (e *env) showContents(f *readFlags, res *mcp.Result) error {
	if f.json {
		return e.printJSON(res.Bytes())
	}
	var r struct {
		Contents []contents `json:"contents"`
	}
	if err := decode(res.Bytes(), &r); err != nil {
		return fmt.Errorf("the result cannot be read: %w; --json prints it as it is", err)
	}
	// After the decoding: what is saved are the contents and not the message.
	if f.output != "" {
		return e.saveContents(f.output, r.Contents)
	}
	return e.printContents(r.Contents)
}

// printContents prints texts one after the other, with nothing between them, or
// nothing at all.
func (e *env) printContents(all []contents) error {
	// Looked at before anything is printed: half of a resource in a pipe is taken
	// for all of it.
	for i := range all {
		if all[i].Text == nil {
			return fmt.Errorf("it is no text (%s); write it to a file with --output FILE, or print it with --json", all[i].describe())
		}
	}
	for i := range all {
		// Nothing is added, no line end either: the output is the resource.
		if err := e.printText(e.Stdout, *all[i].Text); err != nil {
			return err
		}
	}
	return nil
}

// saveContents writes the one contents there are to a file.
func (e *env) saveContents(file string, all []contents) error {
	if len(all) != 1 {
		return fmt.Errorf("it has %d contents, and --output writes one; --json prints all", len(all))
	}
	data, err := all[0].bytes()
	if err != nil {
		return err
	}
	// What a server sends is nobody's else to read by default.
	return os.WriteFile(e.path(file), data, 0o600)
}
