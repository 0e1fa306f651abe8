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

// versionText returns the output of version.
func versionText(info *debug.BuildInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "signalbox %s\n", versionOf(info))
	if rev := revision(info); rev != "" {
		fmt.Fprintf(&b, "revision  %s\n", rev)
	}
	fmt.Fprintf(&b, "go        %s %s/%s\n", info.GoVersion, runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(&b, "protocol  %s\n", joinVersions(append(mcp.ModernVersions(), mcp.LegacyVersions()...)))
	return b.String()
}

// revision returns the commit and whether the work tree was modified.
func revision(info *debug.BuildInfo) string {
	// Each key appears once.
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	// A build outside of a checkout has none.
	rev := settings["vcs.revision"]
	if rev == "" {
		return ""
	}
	if t := settings["vcs.time"]; t != "" {
		rev += " of " + t
	}
	// The commit alone would name something else than what was built.
	if settings["vcs.modified"] == "true" {
		rev += ", modified"
	}
	return rev
}

// joinVersions returns the revisions in order of preference.
func joinVersions(versions []mcp.Version) string {
	words := make([]string, len(versions))
	for i, v := range versions {
		words[i] = string(v)
	}
	return strings.Join(words, " ")
}
