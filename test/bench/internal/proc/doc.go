// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proc starts the programs of a measurement, reads what the operating system
// and their runtimes have counted of them, and ends them. What it reads stands in
// /proc, so it works on Linux only.
package proc
