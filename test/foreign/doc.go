// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreign installs, builds and runs programs, those of other projects
// above all, for the tests that are modules of their own. Whatever it starts
// ends with the test that started it, and what goes wrong fails that test.
package foreign
