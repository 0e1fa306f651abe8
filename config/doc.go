// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config has the configuration of a gateway, as plain data, and reads it from files.
//
//	cfg, err := config.Load("signalbox.yaml", os.LookupEnv)
//
// A file is YAML or JSON. The mcpServers map of desktop clients and editors is a complete
// configuration by itself; the gateway's own settings are other keys beside it, which
// docs/config.md describes. A program can also fill in a [Config] itself. The names of its
// fields in files are in their tags.
//
// Reading is strict: an unknown key, a number without its unit, and a variable that is not
// set are errors. And it is complete: all [Problems] of a file are reported at once, each
// with its line and column, in the order of the file.
//
// Types, reading and rules are one package, because validation, defaults and reading depend
// on each other and on the types. Parsing of the syntax is below it, in internal/configfile,
// which knows no settings.
package config
