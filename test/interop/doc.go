// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interop shows that clients and servers of other projects work with
// Signalbox in between as they work without it.
//
// Everything is in the tests. They install the clients and servers that
// package-lock.json, python/requirements.txt and python1/requirements.txt pin, build the
// Go SDK server in goserver, the client of mcp-go in mcpgo and the command signalbox, and let each client do the same things with
// each server in each protocol version that the client speaks: directly, through one
// endpoint that has all servers behind it, and through a gateway that the client
// starts itself and speaks to over stdio. What came of it is printed as one table: a
// row per client and version, a column per feature, and in each cell at how many
// servers the feature worked on each of the three routes.
//
// The test fails when something works directly and not through the gateway, and
// when a client of one era cannot do through the gateway what a server of the
// other offers, but for what gaps_test.go lists. What is listed is tried all the
// same, for a short time; one that works is an error, too.
//
// Not each client meets each server. What the gateway does between two of them
// depends on the eras and the transports of both sides, so revisions before the
// newest of an era, the inspector, which takes a process for each request, and the
// clients that profileOf says so of, try the servers that have one of each; and a gateway that is started for one
// client has one of each behind it. The newest revisions of each SDK's client meet
// the server of each SDK.
//
// Nothing is bound to a time that a slow machine could miss: a client waits for what
// it is told, and gives up after minutes.
//
// Run it in this folder, so that the table is shown while the tests pass:
//
//	go test -count=1
//
// The flags -clients and -servers, with names between commas, choose a part, -more adds
// the clients in Rust and Java, which are built first, and -update writes the table to
// docs/interop.md.
//
// The system needs Go, npm and Python 3.10; npm brings the newer Node that some of
// the packages ask for. With -more it needs cargo, and Maven with a JDK 17. Without one
// of these but Go, what needs it is not tried, and a line says so; with CI=true in the environment that is an error.
package interop
