// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Handler may serve parts of what it offers as profiles. The profile of a request is in the
// context in which it is served, and from there in [mcp.Request.Profile]. What a client keeps
// belongs to its profile: a session, a stream, a connection or a state is unknown at any
// other. Limits are for all profiles together.

// profileKey is the key of the profile in a context.
type profileKey struct{}

// WithProfile returns a context for requests to a profile of the Handler. [Server.ServeHTTP]
// and [Server.SSE] use that of the HTTP request, and [Server.ServeStdio] that of the call.
func WithProfile(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, profileKey{}, name)
}

// ProfileOf returns the profile of a context, or "" for everything.
func ProfileOf(ctx context.Context) string {
	name, _ := ctx.Value(profileKey{}).(string)
	return name
}

// sender is the sender of a message: its principal, the profile to which it was sent, and
// what authentication found, or nil.
type sender struct {
	principal, profile string
	identity           *mcp.Identity
}

// owns reports whether what the sender has opened belongs to other, too.
func (s sender) owns(other sender) bool {
	return s.principal == other.principal && s.profile == other.profile
}

// atExpiry calls end on another goroutine when the credentials of a sender end. It returns nil
// if they do not end.
func atExpiry(identity *mcp.Identity, end func()) *time.Timer {
	if identity == nil || identity.Expires.IsZero() {
		return nil
	}
	return time.AfterFunc(time.Until(identity.Expires), end)
}

// stopTimer stops a timer, which may be nil.
func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

func (s *Server) hasProfile(name string) bool {
	return name == "" || s.cfg.HasProfile != nil && s.cfg.HasProfile(name)
}

var errNoProfile = errors.New("there is no such profile")

// serveHidden answers as for a path at which nothing is served.
func (s *Server) serveHidden(p *response, r *http.Request) {
	for _, name := range []string{"Vary", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers"} {
		p.w.Header().Del(name) // of an endpoint
	}
	p.passed = true
	s.cfg.NotFound.ServeHTTP(p.w, r)
}

// EndProfile ends what belongs to a profile that the Handler no longer has: its sessions and
// connections with the requests in them, its listens, and requests that wait for input. Other
// requests without a session may finish. Config.HasProfile must report false for the profile
// from before the call.
func (s *Server) EndProfile(name string) {
	removed := fmt.Errorf("the profile %q was removed", name)
	for _, sess := range s.sessions.OfProfile(name) {
		s.end(sess, errSessionEnded())
	}
	for _, entry := range s.inflight.list(kindListen, kindPipe) {
		if entry.profile == name {
			entry.tearDown(removed)
		}
	}
	s.cancelParkedOf(name, removed)
}

// cancelParkedOf cancels the parked requests of a profile.
func (s *Server) cancelParkedOf(profile string, why error) {
	s.cancelParked(s.parked.Drop(func(o session.Owner) bool { return o.Profile == profile }), why)
}
