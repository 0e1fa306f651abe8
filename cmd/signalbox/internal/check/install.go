// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import "regexp"

// npxPath matches the folder in which npx has installed a package, in an error of node.
var npxPath = regexp.MustCompile(`(?:imported from |- |')((?:/|[A-Za-z]:\\)[^|']*?[/\\]_npx[/\\][0-9a-f]{16})[/\\]`)

// npxFolder returns the folder in which npx has installed a package in part, by the last lines
// that the server has written, or "".
func npxFolder(reason string) string {
	if found := npxPath.FindStringSubmatch(reason); found != nil {
		return found[1]
	}
	return ""
}

// logHasMore matches what a reason has about lines that are in a log. The servers of a check have
// none.
var logHasMore = regexp.MustCompile(` \(the log has (\d+) more\)$`)
