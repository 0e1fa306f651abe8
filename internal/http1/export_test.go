// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

// IsPlain is isPlain.
var IsPlain = isPlain
