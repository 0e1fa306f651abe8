// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/mcp"
)

type whyFlags struct {
	config string // the file of the gateway; empty means the one that is found
	json   bool   // print the record unmodified
}

func newWhy(e *env) *cobra.Command {
	var f whyFlags
	cmd := &cobra.Command{
		Use:   "why CALL",
		Short: "Show where the time of a call went",
		Long: `Show where the time of a call went, and how it ended. CALL is the id in an error, in
the log or in the audit record, such as 7k3m9-q2xfa. The running gateway of this user that
serves the configuration file remembers its latest 4096 calls.`,
		Args: argsBetween(1, 1, "CALL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, ok := mcp.ParseCallID(args[0])
			if !ok {
				return usagef("%q is not the id of a call, such as 7k3m9-q2xfa", args[0])
			}
			return e.whyCall(cmd.Context(), f.config, f.json, id)
		},
	}
	configFlag(cmd, &f.config)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the record as JSON")
	return cmd
}
