// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe provides the log, the audit record and the metrics of a gateway.
//
// All three are bounded, because attackers can cause entries. A bound is never silent: what is
// dropped is counted, and the count is reported in its place.
//
// The package does not depend on servers and clients. The root package, its only user, decides
// what is counted.
package observe
