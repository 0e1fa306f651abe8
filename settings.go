// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import "github.com/signalbox-mcp/signalbox/internal/config"

// What a configuration is made of, for programs that write one themselves.
// docs/config.md has every key and its meaning.
type (
	// Config is everything that a file can say, as plain data. The zero value is
	// a gateway without backends, with the documented defaults.
	Config = config.Config

	// Backend is one entry of mcpServers.
	Backend = config.Server

	// Auth says who may call.
	Auth = config.Auth

	// Token is one bearer token and whose it is.
	Token = config.Token

	// Limits bound what clients and backends can make the gateway spend. A zero
	// field is its default, a negative one is no limit.
	Limits = config.Limits

	// State is how what clients keep for the gateway is protected.
	State = config.State

	// Drain is how the gateway stops.
	Drain = config.Drain

	// Log is what the command logs, and how; a program gives [Options] a Logger.
	Log = config.Log

	// Audit is where the record of calls and security events goes.
	Audit = config.Audit

	// Conflict is who gets a name that several backends offer.
	Conflict = config.Conflict

	// ReloadPolicy is which changes of its file a Gateway takes by itself.
	ReloadPolicy = config.Reload

	// Problems are all mistakes of a configuration, in the order of the file.
	Problems = config.Problems

	// Secret is a text that is never printed: a value of a header, of an
	// environment variable, or a token.
	Secret = config.Secret
)

// The values of [Conflict].
const (
	ConflictHide  = config.ConflictHide  // nobody, which is the default
	ConflictFirst = config.ConflictFirst // the first in the order of the configuration
)

// The values of [ReloadPolicy].
const (
	ReloadGuarded = config.ReloadGuarded // what runs nothing new, or is written by the operator; the default
	ReloadAuto    = config.ReloadAuto    // everything
	ReloadManual  = config.ReloadManual  // nothing
)

// NewSecret returns a Secret that holds a text.
func NewSecret(text string) Secret { return config.NewSecret(text) }

// LoadConfig reads a configuration file, YAML or JSON. A plain mcpServers map is
// a complete one. The error is of type [Problems] when the file could be read
// and says something wrong. env looks up environment variables, as
// [os.LookupEnv] does.
func LoadConfig(path string, env func(string) (string, bool)) (*Config, error) {
	return config.Load(path, env)
}
