// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yardstick has what a gateway is compared with: programs on net/http that
// do less than it does.
package yardstick
