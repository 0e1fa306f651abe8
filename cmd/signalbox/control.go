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
)

// A gateway that serves a file listens on a socket in the state folder of its user, for
// the commands of that user. The folder is the user's alone. No web page, no client of MCP
// and no tool that fetches addresses reaches a socket of the file system.

// The paths on the socket.
const (
	gatewayPath = "/admin/v1/gateway" // a gatewayAnswer
	reloadPath  = "/admin/v1/reload"  // takes the request to reload
	joinPath    = "/mcp"              // the MCP endpoint, where gatewayAnswer.Joinable
)

// socketEnd is what the names of sockets end in.
const socketEnd = ".sock"

// gatewayAnswer is what a gateway says of itself on its socket.
type gatewayAnswer struct {
	Process  int  `json:"process"`
	Joinable bool `json:"joinable"` // the commands of its user are served like other clients
}

// reloadAnswer is what a gateway says about a reload.
type reloadAnswer struct {
	Process  int      `json:"process"`
	Backends int      `json:"backends"`           // that it has now
	Problems []string `json:"problems,omitempty"` // why it was refused; none where it was not
}

// answerTo is the answer to a reload that ended so.
func answerTo(cfg *signalbox.Config, err error) reloadAnswer {
	a := reloadAnswer{Process: os.Getpid()}
	var problems signalbox.Problems
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

// control is the socket of a running gateway. The methods of a nil one do nothing.
type control struct {
	server *http.Server
	asked  chan chan<- reloadAnswer
	ending chan struct{} // closed when no reload is taken any more
	ended  chan struct{} // closed when nothing is served on it any more
}

// openControl begins to listen. A gateway without the socket still serves, and takes
// signals.
func (s *service) openControl(ctx context.Context) {
	if s.source.isDemo() {
		return
	}
	routes := http.NewServeMux()
	routes.Handle("GET "+statusPath, signalbox.Local(s.gateway.Operations()))
	self := gatewayAnswer{Process: os.Getpid(), Joinable: s.flags.http()}
	routes.HandleFunc("GET "+gatewayPath, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, self) })
	if self.Joinable { // otherwise the backends' processes are those of the only client
		routes.Handle(joinPath, signalbox.Local(s.gateway))
	}
	c, err := newControl(ctx, s.env, s.source.path, routes)
	if err != nil {
		s.log.InfoContext(ctx, "the commands of this user do not reach this gateway; SIGHUP reloads it", slog.Any("error", err))
		return
	}
	s.control = c
}

// newControl listens on a socket for a file, and serves the routes and reloads there.
func newControl(ctx context.Context, e *env, file string, routes *http.ServeMux) (*control, error) {
	folder, err := e.controlFolder(file)
	if err != nil {
		return nil, err
	}
	if err := makePrivate(folder); err != nil {
		return nil, err
	}
	removeDead(ctx, folder)
	// Not by the process id: in containers that share the folder all have the same.
	path := filepath.Join(folder, rand.Text()[:8]+socketEnd)
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	c := &control{asked: make(chan chan<- reloadAnswer), ending: make(chan struct{}), ended: make(chan struct{})}
	routes.HandleFunc("POST "+reloadPath, c.serveReload)
	c.server = &http.Server{
		Handler: routes, ReadHeaderTimeout: controlWithin, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	// Ends with close, which waits for it.
	go func() {
		defer close(c.ended)
		_ = c.server.Serve(listener) // close ends it; the listener removes the socket
	}()
	return c, nil
}

// controlWithin is how long either side of the socket waits for the other.
const controlWithin = 30 * time.Second

// asks delivers requests to reload, each with where its answer goes.
func (c *control) asks() <-chan chan<- reloadAnswer {
	if c == nil {
		return nil
	}
	return c.asked
}

func (c *control) serveReload(w http.ResponseWriter, r *http.Request) {
	answer := make(chan reloadAnswer, 1) // the loop does not wait for a client that left
	select {
	case c.asked <- answer:
	case <-c.ending:
		answer <- reloadAnswer{Process: os.Getpid(), Problems: []string{"the gateway is shutting down"}}
	case <-r.Context().Done():
		return
	}
	writeAnswer(w, <-answer)
}

// writeAnswer writes an answer as JSON.
func writeAnswer(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, answer) // fails if the client has gone
}

// end refuses reloads from now on. All else is served until close.
func (c *control) end() {
	if c != nil {
		close(c.ending)
	}
}

// close ends the socket and removes it.
func (c *control) close() {
	if c == nil {
		return
	}
	_ = c.server.Close() // nothing is left to do about it
	<-c.ended
}

// controlFolder returns the folder of the sockets for a file.
func (e *env) controlFolder(file string) (string, error) {
	state, err := e.stateFolder()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, mark(file)), nil
}

// stateFolder returns the folder for what lasts from one command to the next.
func (e *env) stateFolder() (string, error) {
	if folder, ok := e.LookupEnv("XDG_STATE_HOME"); ok && filepath.IsAbs(folder) {
		return filepath.Join(folder, "signalbox"), nil
	}
	// Not below AppData: programs that a packaged client starts see a copy of that.
	variable, below := "HOME", filepath.Join(".local", "state", "signalbox")
	switch runtime.GOOS {
	case "windows":
		variable, below = "USERPROFILE", ".signalbox"
	case "darwin":
		below = filepath.Join("Library", "Application Support", "signalbox")
	}
	home, _ := e.LookupEnv(variable)
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("the user's folder is not known (%s is not set)", variable)
	}
	return filepath.Join(home, below), nil
}

// makePrivate makes a folder that only this user can open.
func makePrivate(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.Chmod(folder, 0o700) //nolint:gosec // a folder; fails for a folder of another user
}

// deadAfter is the age from which a socket without a listener is a leftover: a younger
// one may be about to listen.
const deadAfter = time.Minute

// removeDead removes the sockets of gateways that were killed.
func removeDead(ctx context.Context, folder string) {
	for _, path := range socketsIn(folder) {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < deadAfter {
			continue
		}
		conn, err := dialSocket(ctx, path)
		if err == nil {
			_ = conn.Close() // it lives
			continue
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path) // another process may have done so
		}
	}
}

// socketsIn returns the sockets of a folder, those of dead gateways included.
func socketsIn(folder string) []string {
	paths, _ := filepath.Glob(filepath.Join(folder, "*"+socketEnd)) // the pattern is right
	return paths
}

func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}
