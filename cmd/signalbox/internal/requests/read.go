// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

type readFlags struct {
	target.Flags
	json   bool   // print the whole result
	output string // the file for the contents; empty means standard output
}

// NewRead returns the command that reads a resource.
func NewRead(e *command.Env) *cobra.Command {
	var f readFlags
	cmd := &cobra.Command{
		Use:   "read URI",
		Short: "Read a resource",
		Long: `Read a resource and print its text unmodified. For contents that are not text, use
--output to write them to a file, or --json to print them as JSON.

` + target.Help,
		Args: command.ArgsBetween(1, 1, "one URI"),
		RunE: func(cmd *cobra.Command, args []string) error { return read(cmd.Context(), e, &f, args[0]) },
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole result as JSON, as the server sent it")
	command.AddWord(cmd, &f.output, "output", "o", "write the contents to this `FILE`")
	return cmd
}

// read prints a resource, or saves it to a file. JSON is only printed, so that --output
// always means the contents.
func read(ctx context.Context, e *command.Env, f *readFlags, uri string) error {
	if f.json && f.output != "" {
		return command.Usagef("both --json and --output; choose one")
	}
	return f.With(ctx, e, func(ctx context.Context, t *target.Target) error {
		res, err := readResource(ctx, t, uri)
		if err == nil {
			err = showContents(e, f, res)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", uri, suggestList(withCause(t, err)))
		}
		t.Status = nil // the other backends are no concern of this resource
		return nil
	})
}

// suggestList names the command that lists resources in the error about an unknown one.
func suggestList(err error) error {
	own, ok := errors.AsType[*mcp.Error](err)
	if !ok || !strings.Contains(strings.ToLower(own.Message), "resource not found") {
		return err
	}
	return fmt.Errorf("%w; 'signalbox resources' lists the resources", err)
}

// readResource reads a resource after the backends have been listed: their lists determine
// which of them owns a URI.
func readResource(ctx context.Context, t *target.Target, uri string) (*mcp.Result, error) {
	if err := t.AwaitBackends(ctx); err != nil {
		return nil, err
	}
	params := append([]byte(`{"uri":`), jsonscan.AppendString(nil, uri)...)
	req, err := target.NewRequest("resources/read", append(params, '}'))
	if err != nil {
		return nil, err
	}
	return t.Serve(ctx, req, target.NoCaller{})
}

func showContents(e *command.Env, f *readFlags, res *mcp.Result) error {
	if f.json {
		return e.PrintJSON(res.Bytes())
	}
	var r struct {
		Contents []contents `json:"contents"`
	}
	if err := control.Decode(res.Bytes(), &r); err != nil {
		return fmt.Errorf("cannot decode the result: %w; use --json to print it unmodified", err)
	}
	// The file receives the decoded contents and not the message.
	if f.output != "" {
		return saveContents(e, f.output, r.Contents)
	}
	return printContents(e, r.Contents)
}

// printContents prints all texts without separators, or nothing if one is not text.
func printContents(e *command.Env, all []contents) error {
	// Checked first: a part of a resource in a pipe could be taken for the whole.
	for i := range all {
		if all[i].Text == nil {
			return fmt.Errorf("the contents are not text (%s); write them to a file with --output FILE, or print them with --json", all[i].describe())
		}
	}
	for i := range all {
		// Unmodified, without a line break at the end: the output is the resource.
		if err := e.PrintText(e.Stdout, *all[i].Text); err != nil {
			return err
		}
	}
	return nil
}

func saveContents(e *command.Env, file string, all []contents) error {
	if len(all) != 1 {
		return fmt.Errorf("the resource has %d contents, but --output writes only one; use --json to print all", len(all))
	}
	data, err := all[0].bytes()
	if err != nil {
		return err
	}
	// Readable by the user only: the data may be private.
	return os.WriteFile(e.Path(file), data, 0o600)
}
