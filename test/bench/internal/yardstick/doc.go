// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yardstick has what a gateway is compared with: programs that do less than it
// does, on net/http and on pipes.
package yardstick
