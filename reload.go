// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/config"
)

// ErrClosed is returned by Reload after the Gateway was ended.
var ErrClosed = errors.New("the gateway has been shut down")

// Reload puts another configuration to work. Backends whose entries stayed the
// same, but for how their items are named and which are offered, are not
// touched; those that are gone let their calls end first. Clients
// whose view changes are told. When the configuration cannot work, or changes
// what only a new start can change, the error says so and the old one goes on
// serving.
func (g *Gateway) Reload(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	next := cfg.Effective()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	if what := fixed(g.view.Load().cfg, next); what != "" {
		return Problems{{Path: what, Message: what + " cannot be changed while the gateway runs", Hint: "restart it"}}
	}
	g.apply(next) //nolint:contextcheck // backends outlive the request to reload
	return nil
}

// fixed names a setting that differs and that only a new start can change.
func fixed(old, next *config.Config) string {
	for _, s := range []struct {
		name string
		same bool
	}{
		{"listen", old.Listen == next.Listen},
		{"path", old.Path == next.Path},
		{"auth", reflect.DeepEqual(old.Auth, next.Auth)},
		{"allowedHosts", reflect.DeepEqual(old.AllowedHosts, next.AllowedHosts)},
		{"allowedOrigins", reflect.DeepEqual(old.AllowedOrigins, next.AllowedOrigins)},
		{"limits", old.Limits == next.Limits},
		{"drain", old.Drain == next.Drain},
		{"log", old.Log == next.Log},
		{"name", old.Name == next.Name},
		{"version", old.Version == next.Version},
	} {
		if !s.same {
			return s.name
		}
	}
	return ""
}

// apply starts what the configuration adds, lets go of what it no longer has,
// and has the catalog built anew. It starts and stops in the background: nobody
// waits for a backend.
func (g *Gateway) apply(cfg *config.Config) {
	old := g.view.Load()
	kept := make(map[*backend.Backend]bool)
	next := &view{cfg: cfg}
	for _, srv := range cfg.Servers {
		if srv.Disabled {
			continue
		}
		u := old.reuse(&srv, &cfg.Limits)
		if u == nil {
			u = g.start(srv, cfg.Limits)
		}
		kept[u.Backend] = true
		next.units = append(next.units, u)
	}
	next.units = append(next.units, g.inProcess(old, kept, cfg)...)
	// keepCatalog builds the next one, and sees to it that clients are told of
	// many changes at once. At the start nothing is known, and any backend may
	// come to offer anything.
	if next.catalog = old.catalog; next.catalog == nil {
		next.catalog = next.build()
	}
	g.view.Store(next)
	for _, u := range old.units {
		if !kept[u.Backend] {
			g.retire(u, cfg.Drain.Timeout)
		}
	}
	g.wantRebuild()
}

// inProcess returns the units of the Handlers in this process: made once, kept
// by every reload.
func (g *Gateway) inProcess(old *view, kept map[*backend.Backend]bool, cfg *config.Config) []*unit {
	var units []*unit
	for _, p := range g.opt.InProcess {
		u, ok := old.unit(p.Name)
		if !ok {
			u = g.startInProcess(p, cfg.Limits)
		}
		kept[u.Backend] = true
		units = append(units, u)
	}
	return units
}

// retire ends a unit that the configuration no longer has. Its calls have the
// time, or where that is negative any time.
func (g *Gateway) retire(u *unit, patience time.Duration) {
	// Ends within the drain timeout or with g.ctx; Gateway.stop waits for wg.
	g.wg.Go(func() {
		ctx := g.ctx
		if patience >= 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		if err := u.stop(ctx); err != nil {
			g.log.Warn("backend did not end in order", slog.String("backend", u.Name()), slog.Any("err", err))
		}
	})
}
