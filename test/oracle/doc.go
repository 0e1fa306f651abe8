// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oracle compares internal/oauth with other implementations of the same
// specifications: the oauthex package of the official Go SDK, and golang.org/x/oauth2. It is
// a module of its own, so that the product does not require them.
package oracle
