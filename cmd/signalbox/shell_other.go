// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "context"

// loginPath returns "": there is no login shell.
func (*env) loginPath(context.Context) string { return "" }
