// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

const childEnv = "SIGNALBOX_TEST_CHILD"

func childMain(string) int { return 0 }
