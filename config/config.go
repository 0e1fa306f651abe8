// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/seal"
)

// Config is the content of a configuration file. The zero value of each field means its
// documented default, and reading a Config does not change it. Effective returns a copy
// with the defaults filled in.
//
// In limits and times a negative value means no limit, for which a file has "none".
type Config struct {
	// Schema is the URL of a JSON Schema, for editors. It has no other use.
	Schema string `json:"$schema"`

	// Servers are the backends, in the order of the file.
	Servers []Server `json:"mcpServers"`

	// Listen is the address to serve HTTP on, as host:port.
	Listen string `json:"listen"`
	// Path is the URL path of the MCP endpoint.
	Path string `json:"path"`
	// AllowedHosts are additional accepted values of the Host header.
	AllowedHosts []string `json:"allowedHosts"`
	// AllowedOrigins are the accepted values of the Origin header.
	AllowedOrigins []string `json:"allowedOrigins"`
	// AllowUnauthenticated permits a listener beyond loopback without Auth.
	// It is a separate key, so that no gateway is opened to a network by leaving
	// something out.
	AllowUnauthenticated bool `json:"allowUnauthenticated"`
	// Auth configures authentication. Without tokens every request is accepted.
	Auth Auth `json:"auth"`

	// Name and Version are the gateway's own, sent to clients.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Instructions are sent to clients instead of the joined instructions of the
	// backends.
	// Clients show them to a model before any request, which justifies a setting.
	Instructions string `json:"instructions"`

	// Conflict decides which backend gets a name that several offer.
	Conflict Conflict `json:"conflict"`

	// Reload decides which changes of the file are applied automatically.
	Reload Reload `json:"reload"`

	// StreamLife is how long one response carries a stream before the client has to
	// resume it with another request.
	StreamLife time.Duration `json:"streamLife"`

	// Limits, State, Drain, Log and Audit are mappings of their own.
	Limits Limits `json:"limits"`
	State  State  `json:"state"`
	Drain  Drain  `json:"drain"`
	Log    Log    `json:"log"`
	Audit  Audit  `json:"audit"`

	// Notes are remarks on what has no effect, such as a key for another program or a
	// pattern that another one covers. They are meant for the operator. Only Parse and
	// Load fill them.
	Notes Problems `json:"-"`
}

// Conflict is the policy for a name that several backends offer.
type Conflict string

const (
	// ConflictHide hides the name. It is the default.
	ConflictHide Conflict = "hide"
	// ConflictFirst assigns it to the first backend in file order.
	ConflictFirst Conflict = "first"
)

// Reload is the policy for applying changes of the file automatically.
type Reload string

const (
	// ReloadGuarded applies a change that runs nothing new, and any change if only the
	// operator can write the file. It is the default.
	ReloadGuarded Reload = "guarded"
	// ReloadAuto applies every change.
	ReloadAuto Reload = "auto"
	// ReloadManual applies no change.
	ReloadManual Reload = "manual"
)

// Auth configures authentication.
type Auth struct {
	// Tokens are the accepted bearer tokens.
	Tokens []Token `json:"tokens"`
}

// Token is one bearer token. Several tokens may have one principal, so that a token can be
// replaced without an interruption.
type Token struct {
	// Principal is the identity of a caller with this token.
	Principal string `json:"principal"`
	// Env is the environment variable, and File the file, from which the token was
	// read. One of them is set.
	Env  string `json:"env"`
	File string `json:"file"`
	// Value is the token itself.
	// It is left out when a Config is printed or encoded as JSON.
	Value Secret `json:"-"`
}

// State configures the protection of state that clients keep for the gateway: the states
// of requests that wait for input, and task IDs.
type State struct {
	// Keys are secrets of at least MinStateKey bytes. The first one seals, and all of
	// them open. Without keys a random one is used, which no other process has.
	Keys []Secret `json:"keys"`
}

// MinStateKey is the minimum length in bytes of a key of State.
const MinStateKey = seal.MinKey

// Limits bounds the resources that clients and backends can use. Sizes are in bytes.
type Limits struct {
	// A client's request, a backend's message, and parts of them.
	RequestBody    int64 `json:"requestBody"`
	RequestHeaders int64 `json:"requestHeaders"`
	BackendMessage int64 `json:"backendMessage"`
	Schema         int64 `json:"schema"`
	LogLine        int64 `json:"logLine"`

	// Events kept of streams for clients that resume them: per session, and in
	// total.
	EventLog  int64 `json:"eventLog"`
	EventLogs int64 `json:"eventLogTotal"`

	// Responses that clients have not read yet: in total, and per principal.
	Pending             int64 `json:"pending"`
	PendingPerPrincipal int64 `json:"pendingPerPrincipal"`

	// The content of one message, and the offer of one backend. ToolsPerBackend
	// applies to each kind of item separately.
	Depth           int `json:"depth"`
	Members         int `json:"members"`
	Batch           int `json:"batch"`
	ToolsPerBackend int `json:"toolsPerBackend"`
	Pages           int `json:"pages"`
	Rounds          int `json:"rounds"`

	// Sessions of legacy clients, and what one session may have open.
	// BackendSessions and Processes bound what one backend has open:
	// BackendSessions for clients without sessions, Processes for all clients.
	Sessions             int `json:"sessions"`
	SessionsPerPrincipal int `json:"sessionsPerPrincipal"`
	StreamsPerSession    int `json:"streamsPerSession"`
	InFlightPerSession   int `json:"inFlightPerSession"`
	InFlightPerPrincipal int `json:"inFlightPerPrincipal"`
	Parked               int `json:"parked"`
	Subscriptions        int `json:"subscriptions"`
	BackendSessions      int `json:"backendSessions"`
	Processes            int `json:"processes"`

	// Times. CallIdle and CallMax do not run while a client
	// is asked for input.
	SessionIdle          time.Duration `json:"sessionIdle"`
	SessionUninitialized time.Duration `json:"sessionUninitialized"`
	EventRetention       time.Duration `json:"eventRetention"`
	CallIdle             time.Duration `json:"callIdle"`
	CallMax              time.Duration `json:"callMax"`
	InputWait            time.Duration `json:"inputWait"`
	FirstList            time.Duration `json:"firstList"`
	Connect              time.Duration `json:"connect"`
	Handshake            time.Duration `json:"handshake"`
	Write                time.Duration `json:"write"`
	HeaderRead           time.Duration `json:"headerRead"`
}

// Drain configures the shutdown.
type Drain struct {
	// Delay is how long requests are still accepted after the gateway has begun to
	// report that it is not ready, so that load balancers notice.
	Delay time.Duration `json:"delay"`
	// Spread is the time over which open streams are closed.
	Spread time.Duration `json:"spread"`
	// Timeout is how long running calls may take to end.
	Timeout time.Duration `json:"timeout"`
}

// Log configures the log on standard error.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `json:"level"`
	// Format is text or json.
	Format string `json:"format"`
}

// Audit configures the record of calls and of security events, such as access to what
// belongs to another principal. Unlike the log it is kept, and so has a file of its own.
type Audit struct {
	// File is the path of the file to which the record is appended. If it is empty,
	// security events are logged and calls are not recorded. A relative path in a file
	// has been joined to the folder of the file.
	File string `json:"file"`
}

// Effective returns a copy of c with the defaults filled in for fields that are zero. The
// copy shares slices and maps with c.
func (c *Config) Effective() *Config {
	// A copy: the original is compared with the next Config to find changes, and has to
	// differ from one with a configured value.
	filled := *c
	fill(configKeys(), &filled)
	filled.Limits.FirstList = cmp.Or(filled.Limits.FirstList, filled.Limits.Handshake)
	return &filled
}
