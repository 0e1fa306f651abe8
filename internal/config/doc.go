// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config reads what an operator wrote: files in, Config out.
//
// A config is YAML or JSON. The mcpServers map that desktop clients and editors
// keep is a whole config by itself; the gateway's own settings stand beside it.
//
// Reading is strict and complete. Strict: a key that nothing reads, a number
// without its unit, a variable that is not set are errors and never ignored.
// Complete: every mistake of a file is reported at once, each with its line and
// column, in the order of the file.
//
// The way of a file:
//
//	bytes -> tree of nodes with positions     yaml.go, json.go
//	tree  -> Config, by the tables of keys    keys*.go, form.go, object.go
//	Config -> judged as a whole               validate*.go
//
// The tables of keys are the one description of the format: reading, the hints
// for misspelt keys, the JSON Schema in schema/ and the tables in
// docs/config.md all come from them.
package config
