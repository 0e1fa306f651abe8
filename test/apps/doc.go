// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apps tests that the official servers with apps work behind Signalbox, in hosts that
// run apps with the official AppBridge.
//
// Everything is in the tests. They install the packages that package-lock.json pins, and run
// host.mjs, a host without a browser: the client of the TypeScript SDK, AppBridge, and in place
// of the page in a frame the class App with which pages are written, connected to the bridge in
// memory. It makes the calls and reads of the page, under the names that the server has given
// them and that are written in its HTML.
//
// There is a gateway in front of servers of each era, and a host uses it in each era: one
// endpoint for all servers, and a profile for each server alone. The servers are of the legacy
// era; modern.mjs has them in the modern one, by the server side of the SDK. Where both have
// the same era the host uses the server directly, too, so that a difference is the gateway's.
// A call must arrive at the server once, and its result must be the one that the server sent,
// which the server's side records. The hosts send a token, which may be in nothing that the
// gateway writes, with the log at level debug, and sends to servers.
//
// Run it in this folder, so that the table is printed if the tests pass:
//
//	go test -count=1
//
// The flag -servers selects a part by names separated by commas, and -update writes the table
// to docs/interop.md. It needs Go and npm, and no network after the packages are installed.
// Without npm it tests nothing, and prints a line about it; with CI=true in the environment
// that is an error.
package apps
