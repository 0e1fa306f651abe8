// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
)

// statPause is how long the files of certificates are taken to be unchanged after they were
// looked at.
const statPause = time.Second

// certificates are the certificate of a listener and the authorities of clients. They are read
// again for a connection if their files have changed.
type certificates struct {
	cfg *config.TLS

	mu     sync.Mutex
	log    *slog.Logger
	tls    *tls.Config // as last read
	files  []fileState
	looked time.Time // when the files were last compared
}

// fileState identifies the content of a file as far as the file system shows it.
type fileState struct {
	size    int64
	changed time.Time
	mode    fs.FileMode
}

// newCertificates reads the files.
func newCertificates(cfg *config.TLS) (*certificates, error) {
	c := &certificates{cfg: cfg, log: slog.New(slog.DiscardHandler), looked: time.Now()}
	c.files = c.states()
	var err error
	c.tls, err = c.read()
	return c, err
}

// states returns the states of the files. One that cannot be read has the zero state.
func (c *certificates) states() []fileState {
	states := make([]fileState, 3)
	for i, path := range []string{c.cfg.Certificate, c.cfg.Key, c.cfg.ClientCAs} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil { // follows links, which a mount replaces
			states[i] = fileState{info.Size(), info.ModTime(), info.Mode()}
		}
	}
	return states
}

// read returns the settings of TLS. Each result has keys of its own for the resumption of
// sessions, so that no session outlives the authorities that it was verified with.
func (c *certificates) read() (*tls.Config, error) {
	pair, err := c.cfg.Pair()
	if err != nil {
		return nil, err
	}
	out := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if c.cfg.ClientCAs != "" {
		if out.ClientCAs, err = c.cfg.Authorities(); err != nil {
			return nil, err
		}
		// Not required: clients may have another credential, and health checks none.
		out.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return out, nil
}

// current returns the settings for a new connection. If changed files cannot be used, the
// last good ones are.
func (c *certificates) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < statPause {
		return c.tls, nil
	}
	c.looked = now
	states := c.states()
	if equalStates(states, c.files) {
		return c.tls, nil
	}
	c.files = states
	next, err := c.read()
	if err != nil { // the next change may complete the files
		c.log.Error("the changed files of tls cannot be used, and the former ones are", slog.Any("error", err))
		return c.tls, nil
	}
	c.tls = next
	c.log.Info("the changed files of tls are used")
	return c.tls, nil
}

func equalStates(a, b []fileState) bool {
	for i := range a {
		if a[i].size != b[i].size || !a[i].changed.Equal(b[i].changed) || a[i].mode != b[i].mode {
			return false
		}
	}
	return true
}

// useLog makes c log to a logger.
func (c *certificates) useLog(log *slog.Logger) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = log
}

// secure returns a connection with TLS, which shakes hands with the first read, or the
// connection itself without certificates.
func (c *certificates) secure(conn net.Conn) net.Conn {
	if c == nil {
		return conn
	}
	return tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: c.current})
}

// tlsKey is the context key of the *tls.Conn of a connection.
type tlsKey struct{}

// withTLS is the part of an http.Server's ConnContext for connections with TLS.
func withTLS(ctx context.Context, c net.Conn) context.Context {
	if a, ok := c.(*responseConn); ok {
		if secured, ok := a.Conn.(*tls.Conn); ok {
			return context.WithValue(ctx, tlsKey{}, secured)
		}
	}
	return ctx
}

// withState sets the TLS of requests, which net/http sets only for connections of its own.
func withState(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if secured, ok := r.Context().Value(tlsKey{}).(*tls.Conn); ok {
			state := secured.ConnectionState()
			r.TLS = &state
		}
		next.ServeHTTP(w, r)
	})
}
