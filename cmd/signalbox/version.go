// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// newVersion returns the command that prints the version and the supported revisions of
// the protocol, which bug reports need.
func newVersion(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the supported protocol revisions",
		Args:  argsBetween(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(e.Stdout, versionText(buildInfo()))
			return err
		},
	}
}

// buildInfo returns the build information, or a nearly empty one.
func buildInfo() *debug.BuildInfo {
	// Builds without the go command have none.
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return info
}

// versionOf returns the module's version, or "devel" for a build of a work tree.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// programVersion returns the version and the revision of this program, by which two
// programs are compared.
func programVersion() string {
	info := buildInfo()
	version := versionOf(info)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return version + " " + s.Value
		}
	}
	return version
}

func versionText(info *debug.BuildInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "signalbox %s\n", versionOf(info))
	built := make(map[string]string)
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	// A build outside of a checkout has no revision.
	if rev := built["vcs.revision"]; rev != "" {
		if at := built["vcs.time"]; at != "" {
			rev += " of " + at
		}
		// The commit alone would name something else than what was built.
		if built["vcs.modified"] == "true" {
			rev += ", modified"
		}
		fmt.Fprintf(&b, "revision  %s\n", rev)
	}
	fmt.Fprintf(&b, "go        %s %s/%s\nprotocol ", info.GoVersion, runtime.GOOS, runtime.GOARCH)
	for _, v := range append(mcp.ModernVersions(), mcp.LegacyVersions()...) {
		b.WriteString(" " + string(v))
	}
	return b.String() + "\n"
}
