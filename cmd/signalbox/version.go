// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/version"
)

// newVersion returns the command that prints the version and the supported revisions of
// the protocol, which bug reports need.
func newVersion(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the supported protocol revisions",
		Args:  command.ArgsBetween(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(e.Stdout, version.Text(version.Info()))
			return err
		},
	}
}
