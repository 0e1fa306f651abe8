// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

type readFlags struct {
	targetFlags
	json   bool   // print the whole result
	output string // the file for the contents; empty means standard output
}

func newRead(e *env) *cobra.Command {
	var f readFlags
	cmd := &cobra.Command{
		Use:   "read URI",
		Short: "Read a resource",
		Long: `Read a resource and print its text unmodified. For contents that are not text, use
--output to write them to a file, or --json to print them as JSON.

` + targetHelp,
		Args: argsBetween(1, 1, "one URI"),
		RunE: func(cmd *cobra.Command, args []string) error { return e.read(cmd.Context(), &f, args[0]) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole result as JSON, as the server sent it")
	addWord(cmd, &f.output, "output", "o", "write the contents to this `FILE`")
	return cmd
}

// read prints a resource, or saves it to a file. JSON is only printed, so that --output
// always means the contents.
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
		t.status = nil // the other backends are no concern of this resource
		return nil
	})
}

// readResource reads a resource after the backends have been listed: their lists determine
// which of them owns a URI.
func readResource(ctx context.Context, t *target, uri string) (*mcp.Result, error) {
	if err := t.awaitBackends(ctx); err != nil {
		return nil, err
	}
	params := append([]byte(`{"uri":`), jsonscan.AppendString(nil, uri)...)
	req, err := request("resources/read", append(params, '}'))
	if err != nil {
		return nil, err
	}
	return t.Serve(ctx, req, noCaller{})
}

func (e *env) showContents(f *readFlags, res *mcp.Result) error {
	if f.json {
		return e.printJSON(res.Bytes())
	}
	var r struct {
		Contents []contents `json:"contents"`
	}
	if err := decode(res.Bytes(), &r); err != nil {
		return fmt.Errorf("cannot decode the result: %w; use --json to print it unmodified", err)
	}
	// The file receives the decoded contents and not the message.
	if f.output != "" {
		return e.saveContents(f.output, r.Contents)
	}
	return e.printContents(r.Contents)
}

// printContents prints all texts without separators, or nothing if one is not text.
func (e *env) printContents(all []contents) error {
	// Checked first: a part of a resource in a pipe could be taken for the whole.
	for i := range all {
		if all[i].Text == nil {
			return fmt.Errorf("the contents are not text (%s); write them to a file with --output FILE, or print them with --json", all[i].describe())
		}
	}
	for i := range all {
		// Unmodified, without a line break at the end: the output is the resource.
		if err := e.printText(e.Stdout, *all[i].Text); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) saveContents(file string, all []contents) error {
	if len(all) != 1 {
		return fmt.Errorf("the resource has %d contents, but --output writes only one; use --json to print all", len(all))
	}
	data, err := all[0].bytes()
	if err != nil {
		return err
	}
	// Readable by the user only: the data may be private.
	return os.WriteFile(e.path(file), data, 0o600)
}
