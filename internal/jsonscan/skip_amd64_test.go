// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

func withoutSkip() (restore func()) {
	had := hasSkip
	hasSkip = false
	return func() { hasSkip = had }
}
