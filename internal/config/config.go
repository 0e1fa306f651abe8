// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/seal"
)

// Config is everything that a file can say. It is plain data: the zero value of
// each field means its documented default, and reading a Config does not change
// it. Effective returns a copy in which the defaults are filled in.
//
// In limits and times a negative value means that there is none; a file says
// "none" for that.
type Config struct {
	// Schema is the address of a JSON Schema, for editors. Nothing else reads it.
	Schema string `json:"$schema"`

	// Servers are the backends, in the order of the file.
	Servers []Server `json:"mcpServers"`

	// Listen is the address to serve HTTP on, as host:port.
	Listen string `json:"listen"`
	// Path is the URL path of the MCP endpoint.
	Path string `json:"path"`
	// AllowedHosts are further values of the Host header that are served.
	AllowedHosts []string `json:"allowedHosts"`
	// AllowedOrigins are the values of the Origin header that are served.
	AllowedOrigins []string `json:"allowedOrigins"`
	// AllowUnauthenticated permits a listener beyond loopback without Auth.
	// It is a key of its own, so that nobody opens a gateway to the world by leaving
	// something out.
	AllowUnauthenticated bool `json:"allowUnauthenticated"`
	// Auth says who may call. Without tokens everybody may.
	Auth Auth `json:"auth"`

	// Name and Version are the gateway's own, as clients see them.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Instructions are given to clients instead of the joined ones of the
	// backends.
	// Clients show them to a model before anything was asked, so that they are worth a
	// setting of their own.
	Instructions string `json:"instructions"`

	// Conflict says who gets a name that several backends offer.
	Conflict Conflict `json:"conflict"`

	// Reload says which changes of the file are put to work without being asked.
	Reload Reload `json:"reload"`

	// StreamLife is how long one response carries a stream whose client comes
	// back for the rest.
	StreamLife time.Duration `json:"streamLife"`

	// Limits, State, Drain, Log and Audit have keys of their own.
	Limits Limits `json:"limits"`
	State  State  `json:"state"`
	Drain  Drain  `json:"drain"`
	Log    Log    `json:"log"`
	Audit  Audit  `json:"audit"`

	// Notes are what was read and has no effect, such as a key that only another
	// program needs, or a pattern that another one covers. They are for the
	// operator's eyes and change nothing. Only Parse and Load fill them.
	Notes Problems `json:"-"`
}

// Conflict is what happens to a name that several backends offer.
type Conflict string

const (
	// ConflictHide offers such a name from nobody. It is the default.
	ConflictHide Conflict = "hide"
	// ConflictFirst gives it to the first backend in file order.
	ConflictFirst Conflict = "first"
)

// Reload is which changes of its file a gateway puts to work by itself.
type Reload string

const (
	// ReloadGuarded takes a change that runs nothing new, and any change if only the
	// operator can write the file. It is the default.
	ReloadGuarded Reload = "guarded"
	// ReloadAuto takes every change.
	ReloadAuto Reload = "auto"
	// ReloadManual takes no change.
	ReloadManual Reload = "manual"
)

// Auth says who may call the gateway.
type Auth struct {
	// Tokens are the bearer tokens that are accepted.
	Tokens []Token `json:"tokens"`
}

// Token is one bearer token. Several tokens may name one principal, so that a
// token can be replaced without an interruption.
type Token struct {
	// Principal is who calls with this token.
	Principal string `json:"principal"`
	// Env is the environment variable, and File the file, that the token was
	// read from. One of them is set.
	Env  string `json:"env"`
	File string `json:"file"`
	// Value is the token itself.
	// Whoever prints a Config, or sends it somewhere as JSON, does not send it along.
	Value Secret `json:"-"`
}

// State is how what clients keep for the gateway is protected: the states of
// requests that wait for input, and the ids of tasks.
type State struct {
	// Keys are secrets of at least MinStateKey bytes. The first one seals and all of
	// them open. Without one there is a random one, which no other process knows.
	Keys []Secret `json:"keys"`
}

// MinStateKey is how many bytes a key of State has at least.
const MinStateKey = seal.MinKey

// Limits bounds what clients and backends can make the gateway spend. Sizes are
// in bytes.
type Limits struct {
	// A request of a client, a message of a backend, and parts of them.
	RequestBody    int64 `json:"requestBody"`
	RequestHeaders int64 `json:"requestHeaders"`
	BackendMessage int64 `json:"backendMessage"`
	Schema         int64 `json:"schema"`
	LogLine        int64 `json:"logLine"`

	// What is kept of streams for clients that come back: of one session, and of
	// all.
	EventLog  int64 `json:"eventLog"`
	EventLogs int64 `json:"eventLogTotal"`

	// What is held of answers that clients have not read: of all, and of one principal's.
	Pending             int64 `json:"pending"`
	PendingPerPrincipal int64 `json:"pendingPerPrincipal"`

	// What one message may hold, and what one backend may offer. ToolsPerBackend
	// bounds each kind of item by itself.
	Depth           int `json:"depth"`
	Members         int `json:"members"`
	Batch           int `json:"batch"`
	ToolsPerBackend int `json:"toolsPerBackend"`
	Pages           int `json:"pages"`
	Rounds          int `json:"rounds"`

	// Sessions of legacy clients, and what one of them may have open.
	// BackendSessions and Processes bound what one backend is asked to keep:
	// BackendSessions for clients without sessions, Processes for everybody.
	Sessions             int `json:"sessions"`
	SessionsPerPrincipal int `json:"sessionsPerPrincipal"`
	StreamsPerSession    int `json:"streamsPerSession"`
	InFlightPerSession   int `json:"inFlightPerSession"`
	InFlightPerPrincipal int `json:"inFlightPerPrincipal"`
	Parked               int `json:"parked"`
	Subscriptions        int `json:"subscriptions"`
	BackendSessions      int `json:"backendSessions"`
	Processes            int `json:"processes"`

	// How long things may take or last. CallIdle stands still while a client is
	// asked something, and CallMax does not.
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

// Drain is how the gateway stops.
type Drain struct {
	// Delay is how long it still takes everything while it already says that it
	// is not ready, so that load balancers notice.
	Delay time.Duration `json:"delay"`
	// Spread is the time over which open streams are closed.
	Spread time.Duration `json:"spread"`
	// Timeout is how long calls in flight may take to end.
	Timeout time.Duration `json:"timeout"`
}

// Log is what is written to standard error, and how.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `json:"level"`
	// Format is text or json.
	Format string `json:"format"`
}

// Audit is the record of calls, and of security events: what somebody tried that is
// not theirs. Unlike the log it is kept, and so it has a file of its own.
type Audit struct {
	// File is the path of the file that the record is appended to; empty to have
	// the events in the log, and no record of calls. A relative path has been joined to the folder of the
	// config.
	File string `json:"file"`
}

// Effective returns a copy of c in which every field that has a default and is
// zero holds that default. It shares slices and maps with c.
func (c *Config) Effective() *Config {
	// A copy, because a Config that was read is compared with the next one to see what
	// changed, and a default is not what somebody wrote.
	filled := *c
	fill(configKeys(), &filled)
	filled.Limits.FirstList = cmp.Or(filled.Limits.FirstList, filled.Limits.Handshake)
	return &filled
}
