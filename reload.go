// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"log/slog"
	"os"
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
// serving; Status and the metrics tell of it until a reload works. The file of
// the audit record is opened anew.
func (g *Gateway) Reload(ctx context.Context, cfg Config) error {
	return g.reloadIf(ctx, cfg, func(*config.Config, *config.Config) error { return nil })
}

// ReloadChange is Reload for a file that changed, which need not be the operator's
// act. exposed says who else may have written the file, one sentence each. What the
// key "reload" of the running configuration does not allow is refused with
// [ErrWaits], and Status says that it waits.
func (g *Gateway) ReloadChange(ctx context.Context, cfg Config, exposed []string) error {
	return g.reloadIf(ctx, cfg, func(running, next *config.Config) error { return waits(running, next, exposed) })
}

// reloadIf is Reload where allowed returns nil for the running configuration and the next.
func (g *Gateway) reloadIf(ctx context.Context, cfg Config, allowed func(running, next *config.Config) error) error {
	err := g.reload(ctx, cfg, allowed)
	switch {
	case err == nil:
		g.refusal.Store(nil)
		g.metrics.Reload(ctx, true)
	case errors.Is(err, ErrClosed) || ctx.Err() != nil: // that is not about the configuration
	default:
		g.refuse(ctx, err)
	}
	return err
}

// RefuseReload has Status and the metrics tell of a configuration that was not
// even given to Reload, because it could not be read. err says why; a [Problems]
// does so line by line.
func (g *Gateway) RefuseReload(err error) { g.refuse(context.Background(), err) }

// refuse replaces the refusal before: what keeps the newest file from being put to
// work is what there is to mend.
func (g *Gateway) refuse(ctx context.Context, err error) {
	refusal := &Refusal{At: time.Now(), Problems: []string{err.Error()}, Waits: errors.Is(err, ErrWaits)}
	if problems, ok := errors.AsType[Problems](err); ok {
		refusal.Problems = nil
		for _, p := range problems {
			refusal.Problems = append(refusal.Problems, p.String())
		}
	}
	g.refusal.Store(refusal)
	g.metrics.Reload(ctx, false)
}

func (g *Gateway) reload(ctx context.Context, cfg Config, allowed func(running, next *config.Config) error) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	next := cfg.Effective()
	if err := apart(next, g.opt.InProcess); err != nil {
		return err
	}
	// Before the file of the record is made: its path may be what waits.
	if err := mayReplace(g.view.Load().cfg, next, allowed); err != nil {
		return err
	}
	file, err := openAudit(next)
	if err != nil {
		return err
	}
	if err := g.replace(ctx, next, file, allowed); err != nil {
		if file != nil {
			_ = file.Close() // nothing was written to it
		}
		return err
	}
	return nil
}

// replace puts a configuration to work, and with it the file of its record,
// unless only a new start could, or it is not allowed.
func (g *Gateway) replace(ctx context.Context, next *config.Config, file *os.File, allowed func(running, next *config.Config) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	// Again, because another Reload may have come between.
	if err := mayReplace(g.view.Load().cfg, next, allowed); err != nil {
		return err
	}
	g.apply(next) //nolint:contextcheck // backends outlive the request to reload
	// Under the same lock, or of two reloads one could have the last word on the
	// backends and the other on the file, and one that meets the end of the Gateway
	// would leave its file open. Use only leaves word.
	g.audit.Use(ctx, file)
	return nil
}

// mayReplace returns why a configuration cannot take the place of the running one.
func mayReplace(running, next *config.Config, allowed func(running, next *config.Config) error) error {
	if what := fixed(running, next); what != "" {
		return Problems{{Path: what, Message: what + " cannot be changed while the gateway runs", Hint: "restart it"}}
	}
	return allowed(running, next)
}

// fixed names a setting that differs and that only a new start can change.
//
// What is in this list was given to somebody who keeps it for as long as the
// process lives: the listener, the server and the sessions that it has, the logger.
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
		{"streamLife", old.StreamLife == next.StreamLife},
		{"limits", old.Limits == next.Limits},
		{"state", reflect.DeepEqual(old.State, next.State)},
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
	g.secrets.Store(secretsOf(cfg))
	kept := make(map[*backend.Backend]bool)
	// It knows what was told until now, so that nothing of it is told again, and has
	// heard of nobody until its own catalog is built.
	next := &view{cfg: cfg, said: old.said, counted: old.counted}
	for _, srv := range cfg.Servers {
		if srv.Disabled {
			continue
		}
		u := old.reuse(&srv, &cfg.Limits)
		if u == nil {
			u = g.start(srv, cfg.Limits, old.lastOffer(&srv))
		}
		kept[u.Backend] = true
		next.units = append(next.units, u)
	}
	next.units = append(next.units, g.inProcess(old, kept, cfg)...)
	// keepCatalog builds the next one, and sees to it that clients are told of
	// many changes at once. At the start nothing is known, and any backend may
	// come to offer anything.
	next.offered = next.offers()
	if next.catalog = old.catalog; next.catalog == nil {
		next.catalog = next.build(next.offered)
	}
	next.discovery = g.discoveryOf(next.catalog)
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
		ctx, cancel := withTimeout(g.ctx, patience)
		defer cancel()
		if err := u.stop(ctx); err != nil {
			g.log.Warn("backend did not end in order", slog.String("backend", u.Name()), slog.Any("err", err))
		}
	})
}
