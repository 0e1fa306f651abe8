// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package jsonscan

func withoutSkip() (restore func()) { return func() {} }
