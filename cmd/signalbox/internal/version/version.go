// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version tells the version of this program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Info returns the build information, or a nearly empty one.
func Info() *debug.BuildInfo {
	// Builds without the go command have none.
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return info
}

// Of returns the module's version, or "devel" for a build of a work tree.
func Of(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// Program returns the version and the revision of this program, by which two
// programs are compared.
func Program() string {
	info := Info()
	version := Of(info)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return version + " " + s.Value
		}
	}
	return version
}

// Text returns what the command version prints.
func Text(info *debug.BuildInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "signalbox %s\n", Of(info))
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
