// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interop tests that clients and servers of other projects work through Signalbox
// as they do directly.
//
// Everything is in the tests. They install the clients and servers that package-lock.json,
// python/requirements.txt and python1/requirements.txt pin, build the Go SDK server in
// goserver, the client of mcp-go in mcpgo and the command signalbox, and let each client do
// the same things with each server in each protocol version that the client supports:
// directly, through one endpoint in front of all servers, and through a gateway that the
// client starts itself and uses over stdio. The results are printed as one table: a row per
// client and version, a column per feature, and in each cell the number of servers with
// which the feature worked on each of the three routes.
//
// The test fails if something works directly and not through the gateway, and if a client
// of one era cannot use through the gateway what a server of the other offers, except for
// what gaps_test.go lists. Listed cells are tested all the same, with a short time limit;
// one that works is an error, too.
//
// Not every client uses every server. The gateway's work between two of them depends on the
// eras and the transports of both sides. So revisions before the newest of an era, the
// inspector, which takes a process for each request, and the clients for which profileOf
// reports few use the servers that cover each combination once; and a gateway that is
// started for one client has such servers behind it. The newest revisions of each SDK's
// client use the server of each SDK.
//
// All clients use a second endpoint that authenticates them, each with a token of its own, and
// get the same results. The tokens must not be in what that gateway writes.
//
// No check depends on a time that a slow machine could miss: a client waits for
// notifications, and gives up after minutes.
//
// Run it in this folder, so that the table is printed if the tests pass:
//
//	go test -count=1
//
// The flags -clients and -servers select a part by names separated by commas, -profile has
// both gateways used through a profile with all servers, -more adds the clients in Rust and
// Java, which are built first, and -update writes the tables to docs/interop.md.
//
// The system needs Go, npm and Python 3.10; npm installs the newer Node that some of the
// packages need. With -more it needs cargo, and Maven with a JDK 17. If one of these other
// than Go is missing, its tests are left out, and a line reports that; with CI=true in the
// environment that is an error.
package interop
