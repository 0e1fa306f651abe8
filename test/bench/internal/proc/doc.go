// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proc starts the programs of a measurement, reads the counters of the operating
// system and of their runtimes, and ends them. It reads /proc, so it works on Linux only.
package proc
