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

// newVersion makes the command that prints the version, and the revisions of the
// protocol: those are what a report of a problem lacks most often.
func newVersion(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this is and which protocol revisions it speaks",
		Args:  argsBetween(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(e.Stdout, versionText(buildInfo()))
			return err
		},
	}
}

// buildInfo is what the Go toolchain wrote into the program; an empty one where
// it wrote nothing.
func buildInfo() *debug.BuildInfo {
	// Builds by other means than the go command leave nothing behind.
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return info
}

// versionOf returns the module's version, "devel" for a build of a work tree.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// versionText is what version prints.
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

// revision returns the commit that was built, and whether anything was changed.
func revision(info *debug.BuildInfo) string {
	// A list, in which each setting stands once.
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	// A build outside of a checkout knows none, and says nothing of it.
	rev := settings["vcs.revision"]
	if rev == "" {
		return ""
	}
	if t := settings["vcs.time"]; t != "" {
		rev += " of " + t
	}
	// Said, because the commit alone would then name what was not built.
	if settings["vcs.modified"] == "true" {
		rev += ", modified"
	}
	return rev
}

// joinVersions writes revisions in the order in which they are preferred.
func joinVersions(versions []mcp.Version) string {
	words := make([]string, len(versions))
	for i, v := range versions {
		words[i] = string(v)
	}
	return strings.Join(words, " ")
}
