// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package shellpath

import "context"

// ask returns "": there is no login shell.
func ask(context.Context, string) string { return "" }
