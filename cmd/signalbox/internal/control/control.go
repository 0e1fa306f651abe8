// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package control talks to the running gateways of a configuration file.
//
// A gateway that serves a file listens on a Unix socket in the state folder of its user,
// for the commands of that user: the admin plane. Only the user can open the folder. Web
// pages, MCP clients and tools that fetch URLs cannot reach a socket of the file system.
// This package has the paths of that plane, the messages on them, and the requests of
// commands. The other side, in the gateway, is package serve.
package control

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// The paths served on the socket.
const (
	GatewayPath = "/admin/v1/gateway"  // GET: an Info
	ClientsPath = "/admin/v1/clients"  // GET: the clients that have listed something, as []signalbox.ClientStatus
	ToolsPath   = "/admin/v1/tools"    // GET: the backend of each tool, by the tool's name
	CallsPath   = "/admin/v1/calls"    // GET: the latest calls; followed by /ID, one of them
	WhyPath     = "/admin/v1/why"      // GET with ?name=: a signalbox.Explanation
	PinsPath    = "/admin/v1/pins"     // GET: a signalbox.Definitions
	AccessPath  = "/admin/v1/access"   // POST: reads the access of users again, which another process has changed
	ReloadPath  = "/admin/v1/reload"   // POST: reloads, and returns a ReloadResult
	StdioPath   = "/admin/v1/stdio"    // GET with an upgrade: the lines of a client on stdio, if Info.Joinable
	LogPath     = "/admin/v1/log"      // GET: the records of the log, as JSON lines; with follow=true, also later ones
	ServersPath = "/admin/v1/servers/" // POST NAME/retry, NAME/stop or NAME/restart: changes a server, and returns a ServerResult
	JoinPath    = "/mcp"               // the MCP endpoint, if Info.Joinable; with those of profiles below it
)

// The protocol and the headers of a request for StdioPath and of its response.
const (
	UpgradeProtocol  = "mcp-stdio"
	VersionHeader    = "Signalbox-Version"
	ProcessHeader    = "Signalbox-Process"
	BackgroundHeader = "Signalbox-Background"
)

// SocketSuffix is the suffix of the sockets' names.
const SocketSuffix = ".sock"

// Info describes the gateway of a socket.
type Info struct {
	Process  int    `json:"process"`
	Joinable bool   `json:"joinable"`      // commands of the user may use JoinPath
	URL      string `json:"url,omitempty"` // of the MCP endpoint on HTTP, if there is one
	Version  string `json:"version,omitempty"`

	Background bool `json:"background,omitempty"` // it was started by attach
}

// ReloadResult is the result of a reload.
type ReloadResult struct {
	Process  int      `json:"process"`
	Backends int      `json:"backends"`           // the number of backends after it
	Problems []string `json:"problems,omitempty"` // why it was refused; empty if it was not
}

// ServerResult is the result of a change of one server.
type ServerResult struct {
	Process int                      `json:"process"`
	Problem string                   `json:"problem,omitempty"` // why it was not done
	Unknown bool                     `json:"unknown,omitzero"`  // no backend has the name
	Backend *signalbox.BackendStatus `json:"backend,omitempty"`
}

// Timeout bounds how long each side of the socket waits for the other.
const Timeout = 30 * time.Second

// StaleAfter is the age from which a socket that refuses connections is removed. A younger
// one may be about to listen.
const StaleAfter = time.Minute

// Sockets returns the sockets of a folder, including those of killed gateways.
func Sockets(folder string) []string {
	paths, _ := filepath.Glob(filepath.Join(folder, "*"+SocketSuffix)) // the pattern is valid
	return paths
}

// socketsOf returns the sockets of a configuration file. It returns nil without a state folder.
func socketsOf(e *command.Env, file string) []string {
	folder, err := source.StateFolder(e, file)
	if err != nil {
		return nil
	}
	return Sockets(folder)
}

// Dial connects to a socket.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}
