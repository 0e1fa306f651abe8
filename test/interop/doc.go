// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interop shows that clients and servers of other projects work with
// Signalbox in between as they work without it.
//
// Everything is in the tests. They install the TypeScript clients and servers
// that package-lock.json pins, build the Go SDK server in goserver and the
// command signalbox, and let each client do the same things with each server in
// each protocol version that the client speaks: directly, through one endpoint
// that has all servers behind it, and through a gateway that the client starts
// itself and speaks to over stdio. What came of it is printed as one table: a row
// per client and version, a column per feature, and in each cell at how many
// servers the feature worked on each of the three routes.
//
// The test fails when something works directly and not through the gateway, and
// when a client of one era cannot do through the gateway what a server of the
// other offers, but for what gaps_test.go lists.
//
// Run it in this folder, so that the table is shown while the tests pass:
//
//	go test -count=1
//
// The system needs Go and npm; npm brings the newer Node that some of the
// packages ask for.
package interop
