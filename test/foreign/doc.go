// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreign installs, builds and runs programs, mostly of other projects, for
// tests in separate modules. A process ends with the test that started it, and an
// error fails that test.
package foreign
