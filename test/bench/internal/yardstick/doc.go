// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yardstick has the programs that a gateway is compared with. They do less than a
// gateway, on net/http and on pipes.
package yardstick
