// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance runs the official conformance suite of MCP against Signalbox: against
// a server and a client that are built on its packages, and through the gateway.
//
// Everything is in the tests. They install the suite that package-lock.json pins, build the
// servers and the command signalbox, and run every set of scenarios in every way in which
// the suite can reach a server: directly, and through the gateway. The results are printed
// as one table, with a row for each scenario of each set and a column for each way. Any
// failure fails the test, and so does a warning.
//
// The table is in docs/conformance.md. This command writes it:
//
//	go test -count=1 -timeout 20m -parallel 2 -run TestConformance -update
//
// The system needs Go and npm; npm installs the newer Node that the suite needs.
package conformance
