// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/keptlists"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// restOf returns how the processes of a backend rest, or nil if it has none.
func (g *Gateway) restOf(b *activeBackend) *backend.Rest {
	if b.client == nil || b.srv.Transport() != config.TypeStdio {
		return nil
	}
	return &backend.Rest{
		Idle:      cmp.Or(b.srv.Idle, config.DefaultIdle),
		Processes: b.client,
		Busy:      func() bool { return b.tasks.any(time.Now()) },
		Shown: func(client *mcp.Peer) backend.Lists {
			return g.viewOf(viewer{Client: backend.Client{Peer: client}}).listsOf(b)
		},
	}
}

// runningTasks are the tasks of one backend that may be running. The zero value is
// ready.
type runningTasks struct {
	mu    sync.Mutex
	until map[string]time.Time // by the backend's id
}

const (
	// taskTime is how long a task is taken to run if nothing more is heard of it. A shorter
	// time to live that its server has declared takes precedence.
	taskTime = time.Hour

	// maxRunningTasks bounds the tasks of one backend. Further ones are not recorded.
	maxRunningTasks = 4096
)

// note records the state of a task.
func (r *runningTasks) note(raw []byte, now time.Time) {
	t, err := task.Read(raw)
	if err != nil || t.ID == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Status.IsTerminal() {
		delete(r.until, t.ID)
		return
	}
	if len(r.until) >= maxRunningTasks {
		r.dropExpiredLocked(now)
	}
	if len(r.until) >= maxRunningTasks {
		return
	}
	if r.until == nil {
		r.until = make(map[string]time.Time)
	}
	keep := taskTime
	if t.TTL > 0 {
		keep = min(keep, t.TTL)
	}
	r.until[t.ID] = now.Add(keep)
}

func (r *runningTasks) any(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropExpiredLocked(now)
	return len(r.until) > 0
}

func (r *runningTasks) dropExpiredLocked(now time.Time) {
	maps.DeleteFunc(r.until, func(_ string, until time.Time) bool { return !until.After(now) })
}

// keyOf returns the key under which the lists of a server are kept: all that decides
// which server it is, and what it shows.
func (g *Gateway) keyOf(srv *config.Backend) *keptlists.Key {
	k := &keptlists.Key{
		Transport: string(srv.Transport()), Command: srv.Command, Args: srv.Args, Cwd: srv.Cwd, Env: environ(srv.Env),
		URL: srv.URL, Era: srv.Era,
	}
	for _, name := range slices.Sorted(maps.Keys(srv.Headers)) {
		k.Headers = append(k.Headers, name+": "+srv.Headers[name].Reveal())
	}
	if h := srv.HeadersHelper; h != nil {
		k.Headers = append(k.Headers, "headersHelper:\n"+strings.Join(slices.Concat(h.Command, environ(h.Env)), "\n"))
	}
	if o := srv.OAuth; o != nil { // in place of a header: the lists may depend on it
		parts := []string{"oauth:", o.As, o.Grant, o.Issuer, o.ClientID, strings.Join(o.Scopes, " "), o.Audience, o.Resource, o.Assertion}
		parts = append(parts, environ(o.Parameters)...)
		if a := o.AuthorizationServer; a != nil {
			parts = append(parts, a.Issuer, a.ClientID, o.IDToken)
		}
		k.Headers = append(k.Headers, strings.Join(parts, "\n"))
		if g.listsPerUser(srv) { // what was kept for one user, or as the same for all, is not for others
			k.Headers = append(k.Headers, "lists: own")
		}
	}
	return k
}

// variant returns the name of what is kept for a set of features. The lists that the offer has
// are kept apart from those of a set beside it.
func variant(p backend.Features) string { return strconv.Itoa(int(p)) }

func besideVariant(p backend.Features) string { return "beside-" + variant(p) }

// listsPerUser reports whether the lists of a server may be those of one of several users.
func (g *Gateway) listsPerUser(srv *config.Backend) bool {
	return g.auth != nil && srv.OAuth != nil && !srv.OAuth.IsGateway() && srv.OAuth.Lists != config.ListsShared
}

// keepsLists reports whether the lists of a server are kept in a file: those of the only client may
// be for its user.
func (g *Gateway) keepsLists(srv *config.Backend) bool {
	return g.kept != nil && (srv.Command != "" || srv.URL != "") && (g.onlyClient == nil || !g.listsPerUser(srv))
}

// keptOffer returns a function that returns what the server offered in an earlier run,
// or nil if nothing is kept.
func (g *Gateway) keptOffer(srv *config.Backend) func(backend.Features) *backend.Offer {
	if !g.keepsLists(srv) {
		return nil
	}
	key := g.keyOf(srv)
	return func(p backend.Features) *backend.Offer {
		raw := g.kept.Read(key, variant(p))
		if raw == nil {
			return nil
		}
		o, err := backend.DecodeKept(raw)
		if err != nil {
			g.kept.Ignore(key, variant(p), err)
			return nil
		}
		return o
	}
}

// keepOffer returns a function that keeps an offer for a later run, or nil.
func (g *Gateway) keepOffer(srv *config.Backend) func(backend.Features, *backend.Offer) {
	if !g.keepsLists(srv) {
		return nil
	}
	key := g.keyOf(srv)
	return func(p backend.Features, o *backend.Offer) {
		if raw, err := o.Encode(); err == nil {
			g.kept.Write(g.ctx, key, variant(p), raw)
		}
	}
}

// featureListsOf returns what a backend offers to clients with these features: as kept with the
// lists that it offers now, or by a process or session for the question alone. What is kept does
// not count if it is asked again.
func (g *Gateway) featureListsOf(ctx context.Context, b *activeBackend, p backend.Features, again bool) (backend.Lists, error) {
	base := g.view.Load().listsOf(b)
	if !g.keepsLists(&b.srv) {
		return b.ListsOf(ctx, p)
	}
	key := g.keyOf(&b.srv)
	if raw := g.kept.Read(key, besideVariant(p)); raw != nil && !again {
		if lists, ok := backend.DecodeListsFor(&base, raw); ok {
			return lists, nil
		}
	}
	lists, err := b.ListsOf(ctx, p)
	if err != nil {
		return lists, fmt.Errorf("lists for a client: %w", err)
	}
	if raw, err := lists.EncodeFor(&base); err == nil {
		g.kept.Write(ctx, key, besideVariant(p), raw)
	}
	return lists, nil
}
