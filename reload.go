// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
)

// ErrClosed is returned by Reload after the Gateway was closed.
var ErrClosed = errors.New("the gateway has been shut down")

// ErrWaits is the error of a changed file that only the operator can apply.
var ErrWaits = errors.New("the change waits for the operator")

// Reload replaces the configuration. A backend continues untouched if its entry changes
// only the names and the selection of its items, or not at all. Removed backends finish
// their calls first. Clients are notified if their view changes, and the sessions of removed
// profiles end. If the configuration
// is invalid, or changes a setting that requires a restart, Reload returns an error and
// the old configuration stays in use; Status and the metrics report this until a reload
// succeeds. The file of the audit record is opened again.
func (g *Gateway) Reload(ctx context.Context, cfg config.Config) error {
	return g.reloadIf(ctx, cfg, func(*config.Config, *config.Config) error { return nil })
}

// ReloadChange is Reload for a file that changed, possibly not by the operator. exposed
// lists the others that may have written the file, one sentence each. A change that the
// key "reload" of the running configuration does not permit is refused with [ErrWaits],
// and Status reports that it waits.
func (g *Gateway) ReloadChange(ctx context.Context, cfg config.Config, exposed []string) error {
	return g.reloadIf(ctx, cfg, func(running, next *config.Config) error { return checkPolicy(running, next, exposed) })
}

// reloadIf is Reload if allowed returns nil for the running configuration and the next.
func (g *Gateway) reloadIf(ctx context.Context, cfg config.Config, allowed func(running, next *config.Config) error) error {
	err := g.reload(ctx, cfg, allowed)
	switch {
	case err == nil:
		now := time.Now()
		g.reloaded.Store(&now)
		g.refusal.Store(nil)
		g.metrics.Reload(ctx, true)
	case errors.Is(err, ErrClosed) || ctx.Err() != nil: // not an error of the configuration
	default:
		g.refuse(ctx, err)
	}
	return err
}

// RefuseReload reports in Status and the metrics a configuration that was not passed to
// Reload, because it could not be read. err is the reason; a [config.Problems] lists it line
// by line.
func (g *Gateway) RefuseReload(err error) { g.refuse(context.Background(), err) }

// refuse replaces the previous refusal: only the problems of the newest file are of
// interest.
func (g *Gateway) refuse(ctx context.Context, err error) {
	refusal := &Refusal{At: time.Now(), Problems: []string{err.Error()}, Waits: errors.Is(err, ErrWaits)}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		refusal.Problems = nil
		for _, p := range problems {
			refusal.Problems = append(refusal.Problems, p.String())
		}
	}
	g.refusal.Store(refusal)
	g.metrics.Reload(ctx, false)
}

func (g *Gateway) reload(ctx context.Context, cfg config.Config, allowed func(running, next *config.Config) error) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	next := cfg.Effective()
	if err := checkNames(next, g.opt.InProcess); err != nil {
		return err
	}
	// Before the audit file is created: its path may be a change that waits.
	if err := mayReplace(g.view.Load().cfg, next, allowed); err != nil {
		return err
	}
	file, err := openAudit(next)
	if err != nil {
		return err
	}
	removed, err := g.replace(ctx, next, file, allowed)
	if err != nil {
		if file != nil {
			_ = file.Close() // nothing was written to it
		}
		return err
	}
	for _, name := range removed {
		g.server.EndProfile(name)
	}
	return nil
}

// replace replaces the configuration in use, and returns the profiles that it removes.
func (g *Gateway) replace(ctx context.Context, next *config.Config, file *os.File, allowed func(running, next *config.Config) error) (removed []string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	old := g.view.Load().cfg
	// Again, because another Reload may have run in between.
	if err := mayReplace(old, next, allowed); err != nil {
		return nil, err
	}
	g.apply(next) //nolint:contextcheck // backends outlive the request to reload
	// Under the same lock: otherwise one of two concurrent reloads could set the
	// backends and the other the file, and one that runs when the Gateway closes would
	// leave its file open. Use does not block.
	g.audit.Use(ctx, file)
	return removedProfiles(old, next), nil
}

// mayReplace returns why a configuration cannot replace the running one, or nil.
func mayReplace(running, next *config.Config, allowed func(running, next *config.Config) error) error {
	fixed := fixedSettings(running, next)
	if fixed == nil {
		return allowed(running, next)
	}
	var problems config.Problems
	for _, what := range fixed {
		problems = append(problems, next.Problem(what, what+" cannot be changed while the gateway runs", "restart it"))
	}
	if waiting := running.Reloads(next); waiting != nil {
		problems[0].Hint += "; until then these changes wait, too: " + strings.Join(waiting, ", ")
	}
	return problems
}

// fixedSettings returns the names of the settings that differ and require a restart.
//
// The values of these settings are held for the life of the process: by the listener,
// by the server and its sessions, and by the logger.
func fixedSettings(old, next *config.Config) []string {
	var fixed []string
	for _, s := range []struct {
		name string
		same bool
	}{
		{"listen", old.Listen == next.Listen},
		{"path", old.Path == next.Path},
		{"publicURL", old.PublicURL == next.PublicURL},
		{"tls", reflect.DeepEqual(old.TLS, next.TLS)},
		{"auth", reflect.DeepEqual(old.Auth, next.Auth)},
		{"allowedHosts", reflect.DeepEqual(old.AllowedHosts, next.AllowedHosts)},
		{"allowedOrigins", reflect.DeepEqual(old.AllowedOrigins, next.AllowedOrigins)},
		{"streamLife", old.StreamLife == next.StreamLife},
		{"limits", old.Limits == next.Limits},
		{"state", reflect.DeepEqual(old.State, next.State)},
		{"credentials", reflect.DeepEqual(old.Credentials, next.Credentials)},
		{"drain", old.Drain == next.Drain},
		{"log", reflect.DeepEqual(old.Log, next.Log)},
		{"name", old.Name == next.Name},
		{"version", old.Version == next.Version},
	} {
		if !s.same {
			fixed = append(fixed, s.name)
		}
	}
	return fixed
}

// apply starts the backends that the configuration adds, retires those that it removes,
// and requests another catalog. Backends start and stop in the background.
func (g *Gateway) apply(cfg *config.Config) {
	old := g.view.Load()
	g.secrets.Store(secretsOf(cfg))
	g.metrics.UseTools(cfg.Metrics.Tools)
	g.useQuotas(cfg)
	g.useResults(cfg)
	g.operators.Store(newOperators(cfg))
	kept := make(map[*backend.Backend]bool)
	next := old.successor() // has settled lists only after its own catalog is built
	next.cfg, next.pins, next.policy, next.ownNames = cfg, newPinsInUse(cfg), g.compilePolicy(cfg, old), new(ownNames)
	for _, srv := range cfg.Servers {
		if srv.Disabled {
			continue
		}
		var b *activeBackend
		var last previous // of the same server
		if running, ok := old.backend(srv.Name); ok {
			b = running.withConfig(&srv, &cfg.Limits)
			if running.isSameServer(&srv) {
				last.offer = running.Offer()
			}
		}
		if b == nil {
			b = g.start(srv, cfg.Limits, last)
		} else {
			b.Retry() // what it was missing may be there now
		}
		kept[b.Backend] = true
		next.backends = append(next.backends, b)
	}
	// Handlers in this process are started once, and every reload keeps them.
	for _, p := range g.opt.InProcess {
		b, ok := old.backend(p.Name)
		if !ok {
			b = g.startInProcess(p, cfg.Limits)
		}
		kept[b.Backend] = true
		next.backends = append(next.backends, b)
	}
	// keepCatalog builds the next catalog, and merges many changes into one
	// notification to clients. At the start nothing is known, and any backend may come
	// to offer anything.
	next.offered = next.offers()
	if next.catalog = old.catalog; next.catalog == nil {
		next.catalog = next.build(next.offered)
	}
	g.derive(next, old)
	close(g.view.Swap(next).replaced) // of old, or of one with another catalog
	if old.catalog == nil {
		g.logProblems(nil, next.catalog.Problems()) // of lists of an earlier run, or of servers that are known already
	}
	g.dropResults(old.cfg, cfg)
	for _, b := range old.backends {
		if !kept[b.Backend] {
			g.former.leave(b, next)
			g.retire(b, cfg.Drain.Timeout)
		}
	}
	g.requestRebuild()
}

// retire stops a backend that the configuration no longer has. Its calls may finish
// within the timeout; a negative timeout is no limit.
func (g *Gateway) retire(b *activeBackend, patience time.Duration) {
	// Ends within the drain timeout or with g.ctx; Gateway.stop waits for wg.
	g.wg.Go(func() {
		ctx, cancel := withTimeout(g.ctx, patience)
		defer cancel()
		if err := b.stop(ctx); err != nil {
			g.log.Warn("backend did not stop cleanly", slog.String("backend", b.Name()), slog.Any("err", err))
		}
	})
}

// waitsError lists the changes that wait for the operator.
type waitsError struct{ config.Problems }

// Is reports whether the target is ErrWaits.
func (w waitsError) Is(target error) bool { return target == ErrWaits }

// Unwrap returns the problems.
func (w waitsError) Unwrap() error { return w.Problems }

// checkPolicy returns the changes that the running configuration does not permit
// without the operator, or nil. The policy is that of the running configuration: a file
// cannot permit itself.
func checkPolicy(running, next *config.Config, exposed []string) error {
	const hint = "apply it with 'signalbox reload' or SIGHUP"
	wait := func(path, message string) config.Problem {
		return config.Problem{Path: path, Message: message, Hint: hint}
	}
	switch running.Reload {
	case config.ReloadAuto:
		return nil
	case config.ReloadManual:
		if sameConfig(running, next) {
			return nil
		}
		return waitsError{config.Problems{wait("", "the file has changed, and reload is set to manual")}}
	case config.ReloadGuarded:
	}
	paths := running.RunsNew(next)
	if len(exposed) == 0 || len(paths) == 0 {
		return nil
	}
	who := exposed[0]
	// A second file in the same folder has the same reasons.
	others := make(map[string]bool)
	for _, reason := range exposed {
		if reason != who {
			others[reason] = true
		}
	}
	switch len(others) {
	case 0:
	case 1:
		who += "; there is 1 more reason"
	default:
		who += fmt.Sprintf("; there are %d more reasons", len(others))
	}
	var problems config.Problems
	for _, path := range paths {
		problems = append(problems, wait(path, "new or changed, and others may have written it: "+who))
	}
	return waitsError{problems}
}

// sameConfig reports whether two configurations are equal except for their notes.
func sameConfig(a, b *config.Config) bool {
	one, two := *a, *b
	one.Notes, two.Notes = nil, nil
	return reflect.DeepEqual(one, two)
}
