// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config reads configuration files.
//
// A configuration is YAML or JSON. The mcpServers map of desktop clients and editors is a
// complete configuration by itself; the gateway's own settings are other keys beside it.
//
// Parsing is strict: an unknown key, a number without its unit, and a variable that is not
// set are errors. And it is complete: all problems of a file are reported at once, each
// with its line and column, in the order of the file.
//
// A file is processed in these steps:
//
//	bytes -> tree of nodes with positions     yaml.go, json.go
//	tree  -> Config, by the tables of keys    keys*.go, form.go, object.go
//	Config -> validated as a whole            validate*.go
//
// The tables of keys are the only description of the format: parsing, suggestions for
// misspelt keys, the JSON Schema in schema/ and the tables in docs/config.md are all
// derived from them.
package config
