// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// NewReload returns the command that makes running gateways reload their file.
func NewReload(e *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration file of a running gateway",
		Long: `Reload the configuration file in all gateways of this user that serve it. A file with
a mistake is rejected, and the previous configuration stays in effect.

Without --config, the file that serve would use here is reloaded. To reload a gateway of
another user, or in a container, send SIGHUP to its process.`,
		Args: command.ArgsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return askReload(cmd.Context(), e, file) },
	}
	source.Flag(cmd, &file)
	return cmd
}

// askReload asks every gateway that serves a file to reload it, and prints the results.
func askReload(ctx context.Context, e *command.Env, flag string) error {
	src, err := source.FindFile(e, flag)
	if err != nil {
		return err
	}
	if _, err := source.StateFolder(e, src.Path); err != nil {
		return fmt.Errorf("reload %s: %w", src.Path, err)
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	asked, failed := 0, 0
	for answer, err := range control.Reload(ctx, e, src.Path) {
		asked++
		if err != nil || len(answer.Problems) > 0 {
			failed++
		}
		if err := printReload(e, src.Path, answer, err); err != nil {
			return err
		}
	}
	switch {
	case asked == 0:
		return fmt.Errorf("no running gateway of this user serves %s; start one with 'signalbox serve', or send SIGHUP to the process if it is another user's", src.Path)
	case failed > 0:
		return fmt.Errorf("reload %s: %s of %d rejected it; the previous configuration stays in effect", src.Path, output.Plural(failed, "gateway"), asked)
	}
	return nil
}

// printReload prints the result of one reload, each problem on a line.
func printReload(e *command.Env, file string, a *control.ReloadResult, err error) error {
	if err != nil {
		return e.PrintText(e.Stdout, fmt.Sprintf("%s: %v\n", file, err))
	}
	text := ""
	for _, p := range a.Problems {
		text += p + "\n"
	}
	if text == "" {
		text = fmt.Sprintf("%s: reloaded by process %d, %s\n", file, a.Process, output.Plural(a.Backends, "backend"))
	}
	return e.PrintText(e.Stdout, text)
}
