// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
)

// A gateway that serves a file listens on a Unix socket in the state folder of its user,
// for the commands of that user. Only the user can open the folder. Web pages, MCP clients
// and tools that fetch URLs cannot reach a socket of the file system.

// The paths served on the socket.
const (
	gatewayPath = "/admin/v1/gateway" // GET: a gatewayInfo
	clientsPath = "/admin/v1/clients" // GET: the clients that have listed something, as []signalbox.ClientStatus
	toolsPath   = "/admin/v1/tools"   // GET: the backend of each tool, by the tool's name
	callsPath   = "/admin/v1/calls"   // GET: the latest calls; followed by /ID, one of them
	whyPath     = "/admin/v1/why"     // GET with ?name=: a signalbox.Explanation
	reloadPath  = "/admin/v1/reload"  // POST: reloads, and returns a reloadResult
	stdioPath   = "/admin/v1/stdio"   // GET with an upgrade: the lines of a client on stdio, if gatewayInfo.Joinable
	logPath     = "/admin/v1/log"     // GET: the records of the log, as JSON lines; with follow=true, also later ones
	joinPath    = "/mcp"              // the MCP endpoint, if gatewayInfo.Joinable; with those of profiles below it
)

// socketSuffix is the suffix of the sockets' names.
const socketSuffix = ".sock"

// gatewayInfo describes the gateway of a socket.
type gatewayInfo struct {
	Process  int    `json:"process"`
	Joinable bool   `json:"joinable"`      // commands of the user may use joinPath
	URL      string `json:"url,omitempty"` // of the MCP endpoint on HTTP, if there is one
	Version  string `json:"version,omitempty"`

	Background bool `json:"background,omitempty"` // it was started by attach
}

// reloadResult is the result of a reload.
type reloadResult struct {
	Process  int      `json:"process"`
	Backends int      `json:"backends"`           // the number of backends after it
	Problems []string `json:"problems,omitempty"` // why it was refused; empty if it was not
}

// newReloadResult returns the result of a reload that returned cfg and err.
func newReloadResult(cfg *config.Config, err error) reloadResult {
	a := reloadResult{Process: os.Getpid()}
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			a.Problems = append(a.Problems, p.String())
		}
	case err != nil:
		a.Problems = []string{err.Error()}
	default:
		a.Backends = len(cfg.Servers)
	}
	return a
}

// control is the socket of a running gateway. The methods of a nil control do nothing.
type control struct {
	server   *http.Server
	requests chan chan<- reloadResult
	draining chan struct{} // closed when reloads are no longer accepted
	ended    chan struct{} // closed when Serve has returned
}

// openControl starts listening. If it fails, the gateway serves without the socket, and
// is reloaded by signals.
func (s *service) openControl(ctx context.Context) {
	if !s.source.hasFile() {
		return
	}
	routes := http.NewServeMux()
	routes.Handle("GET "+statusPath, signalbox.Local(s.gateway.Operations()))
	self := gatewayInfo{Process: os.Getpid(), Joinable: s.flags.http(), Version: programVersion(), Background: s.flags.background}
	if s.http != nil {
		self.URL = s.http.url
	}
	routes.HandleFunc("GET "+gatewayPath, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, self) })
	routes.HandleFunc("GET "+toolsPath, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, s.gateway.ToolBackends()) })
	s.serveServerChanges(routes)
	routes.HandleFunc("GET "+clientsPath, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, s.gateway.Clients()) })
	serveCalls(routes, s.gateway)
	routes.HandleFunc("GET "+whyPath, s.serveWhy)
	if self.Joinable { // otherwise the backends' processes belong to the only client
		joined := s.life.count(signalbox.Local(s.gateway))
		routes.Handle(joinPath, joined)
		routes.HandleFunc(profilePath(joinPath, "{profile}"), func(w http.ResponseWriter, r *http.Request) {
			atProfile(joined, r.PathValue("profile")).ServeHTTP(w, r)
		})
		routes.HandleFunc("GET "+stdioPath, s.serveAttached)
		routes.HandleFunc("GET "+profilePath(stdioPath, "{profile}"), s.serveAttachedAt)
	}
	routes.HandleFunc("GET "+logPath, s.serveLog)
	c, err := newControl(ctx, s.env, s.source.path, s.id, routes)
	if err != nil {
		s.controlErr = err
		s.log.InfoContext(ctx, "no control socket: other commands of this user cannot reach this gateway; send SIGHUP to reload it", slog.Any("error", err))
		return
	}
	s.control = c
}

// newControl listens on a socket with a name for a file, and serves routes and reloads on it.
func newControl(ctx context.Context, e *env, file, name string, routes *http.ServeMux) (*control, error) {
	folder, err := e.makeStateFolder(file)
	if err != nil {
		return nil, err
	}
	removeStale(ctx, folder)
	path := filepath.Join(folder, name+socketSuffix)
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	c := &control{requests: make(chan chan<- reloadResult), draining: make(chan struct{}), ended: make(chan struct{})}
	routes.HandleFunc("POST "+reloadPath, c.serveReload)
	c.server = &http.Server{
		Handler: routes, ReadHeaderTimeout: controlTimeout, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	// Ends with close, which waits for it.
	go func() {
		defer close(c.ended)
		_ = c.server.Serve(listener) // the listener removes the socket
	}()
	return c, nil
}

// controlTimeout bounds how long each side of the socket waits for the other.
const controlTimeout = 30 * time.Second

// reloads delivers requests to reload. Each is a channel that receives the result.
func (c *control) reloads() <-chan chan<- reloadResult {
	if c == nil {
		return nil
	}
	return c.requests
}

func (c *control) serveReload(w http.ResponseWriter, r *http.Request) {
	answer := make(chan reloadResult, 1) // buffered: the loop does not wait for a client that has left
	select {
	case c.requests <- answer:
	case <-c.draining:
		answer <- reloadResult{Process: os.Getpid(), Problems: []string{"the gateway is shutting down"}}
	case <-r.Context().Done():
		return
	}
	writeAnswer(w, <-answer)
}

func writeAnswer(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, answer) // fails only if the client has left
}

// end rejects reloads from now on. Everything else is served until close.
func (c *control) end() {
	if c != nil {
		close(c.draining)
	}
}

// close closes the socket and removes it. Requests that are being answered have a moment for
// that: a reader of the log gets its last records.
func (c *control) close() {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), controlCloseTime)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close() // the error is of no use here
	}
	<-c.ended
}

const controlCloseTime = time.Second

// newGatewayName returns the name of the socket and of the log of a gateway. It is not the
// process ID: containers that share the folder may all have the same.
func newGatewayName() string { return rand.Text()[:8] }

// makeStateFolder returns the folder of stateFolder, which exists then and is of the user
// only.
func (e *env) makeStateFolder(file string) (string, error) {
	folder, err := e.stateFolder(file)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	// Fails if another user owns the folder.
	return folder, os.Chmod(folder, 0o700) //nolint:gosec // a folder
}

// stateFolder returns the folder for what is kept of a configuration file from one command
// to the next, and for the sockets of its gateways.
func (e *env) stateFolder(file string) (string, error) {
	home, err := e.stateHome()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, fileID(file)), nil
}

// stateHome returns the folder for all state of the user.
func (e *env) stateHome() (string, error) {
	if state, ok := e.LookupEnv("XDG_STATE_HOME"); ok && filepath.IsAbs(state) {
		return filepath.Join(state, "signalbox"), nil
	}
	// Not below AppData: programs started by a packaged client see a private copy of it.
	variable, below := "HOME", filepath.Join(".local", "state", "signalbox")
	switch runtime.GOOS {
	case "windows":
		variable, below = "USERPROFILE", ".signalbox"
	case "darwin":
		below = filepath.Join("Library", "Application Support", "signalbox")
	}
	home, _ := e.LookupEnv(variable)
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("the home folder of the user is unknown (set %s)", variable)
	}
	return filepath.Join(home, below), nil
}

// staleAfter is the age from which a socket that refuses connections is removed. A younger
// one may be about to listen.
const staleAfter = time.Minute

// removeStale removes the sockets of gateways that were killed.
func removeStale(ctx context.Context, folder string) {
	for _, path := range socketsIn(folder) {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		conn, err := dialSocket(ctx, path)
		if err == nil {
			_ = conn.Close() // in use
			continue
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path) // another process may have removed it
		}
	}
}

// socketsIn returns the sockets of a folder, including those of killed gateways.
func socketsIn(folder string) []string {
	paths, _ := filepath.Glob(filepath.Join(folder, "*"+socketSuffix)) // the pattern is valid
	return paths
}

func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}
