// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe is what the operator of a gateway gets to see of it: a log
// that nobody can flood, a record of what concerns security, and metrics.
//
// All three are bounded, because what they tell of is often the doing of
// somebody who means no good. A bound never works in silence: what is left out
// is counted, and the count is told where the rest would have stood.
//
// The package knows nothing of servers and clients. Who counts what is decided
// by the package at the root, which is the only one that uses this.
package observe
