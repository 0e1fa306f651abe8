// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import "github.com/signalbox-mcp/signalbox/config"

// The parts of a configuration, for programs that build one themselves. docs/config.md
// documents every key.
type (
	// Config is everything that a file can contain, as plain data. The zero value is a
	// gateway without backends, with the documented defaults.
	Config = config.Config

	// Backend is one entry of mcpServers.
	Backend = config.Server

	// Auth configures how clients authenticate.
	Auth = config.Auth

	// Token is one bearer token and its principal.
	Token = config.Token

	// Limits bound the resources that clients and backends can use. A zero field is its
	// default, a negative one is no limit.
	Limits = config.Limits

	// State configures the protection of state that is held by clients.
	State = config.State

	// Drain configures how the gateway stops.
	Drain = config.Drain

	// Log configures the log of the command; a program sets a Logger in [Options].
	Log = config.Log

	// Audit configures where the record of calls and security events is written.
	Audit = config.Audit

	// Conflict selects the backend that gets a name which several backends offer.
	Conflict = config.Conflict

	// ReloadPolicy selects the changes of its file that a Gateway applies by itself.
	ReloadPolicy = config.Reload

	// Problems are all mistakes of a configuration, in the order of the file.
	Problems = config.Problems

	// Secret is a text that is never printed: a value of a header, of an environment
	// variable, or a token.
	Secret = config.Secret
)

// The values of [Conflict].
const (
	ConflictHide  = config.ConflictHide  // none of them, the default
	ConflictFirst = config.ConflictFirst // the first in the order of the configuration
)

// The values of [ReloadPolicy].
const (
	ReloadGuarded = config.ReloadGuarded // if it runs nothing new, or only the operator writes the file; the default
	ReloadAuto    = config.ReloadAuto    // all changes
	ReloadManual  = config.ReloadManual  // no changes
)

// NewSecret returns a Secret with the given text.
func NewSecret(text string) Secret { return config.NewSecret(text) }

// LoadConfig reads a configuration file, YAML or JSON. A plain mcpServers map is a
// complete one. The error is of type [Problems] if the file could be read and has
// mistakes. env looks up environment variables, as [os.LookupEnv] does.
func LoadConfig(path string, env func(string) (string, bool)) (*Config, error) {
	return config.Load(path, env)
}
