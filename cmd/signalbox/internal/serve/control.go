// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/version"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// newReloadResult returns the result of a reload that returned cfg and err.
func newReloadResult(cfg *config.Config, err error) control.ReloadResult {
	a := control.ReloadResult{Process: os.Getpid()}
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

// controlSocket is the socket of a running gateway. The methods of a nil control do nothing.
type controlSocket struct {
	server   *http.Server
	requests chan chan<- control.ReloadResult
	draining chan struct{} // closed when reloads are no longer accepted
	ended    chan struct{} // closed when Serve has returned
}

// openControl starts listening. If it fails, the gateway serves without the socket, and
// is reloaded by signals.
func (s *service) openControl(ctx context.Context) {
	if !s.source.HasFile() {
		return
	}
	routes := http.NewServeMux()
	routes.Handle("GET "+control.StatusPath, signalbox.Local(s.gateway.Operations()))
	self := control.Info{Process: os.Getpid(), Joinable: s.flags.http(), Version: version.Program(), Background: s.flags.background}
	if s.http != nil {
		self.URL = s.http.url
	}
	routes.HandleFunc("GET "+control.GatewayPath, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, self) })
	routes.HandleFunc("GET "+control.ToolsPath, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, s.gateway.ToolBackends()) })
	routes.HandleFunc("GET "+control.PinsPath, func(w http.ResponseWriter, r *http.Request) {
		all := s.gateway.Definitions()
		s.gateway.ReadAppTools(r.Context(), all)
		s.gateway.ReadPages(r.Context(), all)
		writeAnswer(w, all)
	})
	s.serveServerChanges(routes)
	routes.HandleFunc("POST "+control.AccessPath, func(w http.ResponseWriter, r *http.Request) {
		s.gateway.RereadAccess(r.Context())
		w.WriteHeader(http.StatusNoContent)
	})
	routes.HandleFunc("GET "+control.ClientsPath, func(w http.ResponseWriter, _ *http.Request) { writeAnswer(w, s.gateway.Clients()) })
	serveCalls(routes, s.gateway)
	routes.HandleFunc("GET "+control.WhyPath, s.serveWhy)
	if self.Joinable { // otherwise the backends' processes belong to the only client
		joined := s.life.count(signalbox.Local(s.gateway))
		routes.Handle(control.JoinPath, joined)
		routes.HandleFunc(profiles.Path(control.JoinPath, "{profile}"), func(w http.ResponseWriter, r *http.Request) {
			profiles.Handler(joined, r.PathValue("profile")).ServeHTTP(w, r)
		})
		routes.HandleFunc("GET "+control.StdioPath, s.serveAttached)
		routes.HandleFunc("GET "+profiles.Path(control.StdioPath, "{profile}"), s.serveAttachedAt)
	}
	routes.HandleFunc("GET "+control.LogPath, s.serveLog)
	c, err := newControl(ctx, s.Env, s.source.Path, s.id, routes)
	if err != nil {
		s.controlErr = err
		s.log.InfoContext(ctx, "no control socket: other commands of this user cannot reach this gateway; send SIGHUP to reload it", slog.String("code", code.StateReadonly), slog.Any("error", err))
		return
	}
	s.control = c
}

// newControl listens on a socket with a name for a file, and serves routes and reloads on it.
func newControl(ctx context.Context, e *command.Env, file, name string, routes *http.ServeMux) (*controlSocket, error) {
	folder, err := source.MakeStateFolder(e, file)
	if err != nil {
		return nil, err
	}
	removeStale(ctx, folder)
	path := filepath.Join(folder, name+control.SocketSuffix)
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	c := &controlSocket{requests: make(chan chan<- control.ReloadResult), draining: make(chan struct{}), ended: make(chan struct{})}
	routes.HandleFunc("POST "+control.ReloadPath, c.serveReload)
	c.server = &http.Server{
		Handler: routes, ReadHeaderTimeout: control.Timeout, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	// Ends with close, which waits for it.
	go func() {
		defer close(c.ended)
		_ = c.server.Serve(listener) // the listener removes the socket
	}()
	return c, nil
}

// reloads delivers requests to reload. Each is a channel that receives the result.
func (c *controlSocket) reloads() <-chan chan<- control.ReloadResult {
	if c == nil {
		return nil
	}
	return c.requests
}

func (c *controlSocket) serveReload(w http.ResponseWriter, r *http.Request) {
	answer := make(chan control.ReloadResult, 1) // buffered: the loop does not wait for a client that has left
	select {
	case c.requests <- answer:
	case <-c.draining:
		answer <- control.ReloadResult{Process: os.Getpid(), Problems: []string{"the gateway is shutting down"}}
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
func (c *controlSocket) end() {
	if c != nil {
		close(c.draining)
	}
}

// close closes the socket and removes it. Requests that are being answered have a moment for
// that: a reader of the log gets its last records.
func (c *controlSocket) close() {
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

// removeStale removes the sockets of gateways that were killed.
func removeStale(ctx context.Context, folder string) {
	for _, path := range control.Sockets(folder) {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < control.StaleAfter {
			continue
		}
		conn, err := control.Dial(ctx, path)
		if err == nil {
			_ = conn.Close() // in use
			continue
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path) // another process may have removed it
		}
	}
}
