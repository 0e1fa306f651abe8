// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signalbox puts one MCP endpoint in front of many MCP servers.
package signalbox
