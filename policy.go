// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/metrics"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// policyInUse is the policy of a configuration.
type policyInUse struct {
	*policy.Policy

	dryRun  bool
	allowed map[string]metrics.Counter // of the calls that a rule has allowed

	decided recent[policy.Class, decidedItems]
}

// compilePolicy returns the policy of a valid configuration, or nil if it has none. A policy that
// is the same as in the view before goes on, with its decisions.
func (g *Gateway) compilePolicy(cfg *config.Config, before *view) *policyInUse {
	if cfg.Policy.IsZero() {
		return nil
	}
	if cfg.Policy.DryRun {
		g.log.Warn("policy.dryRun is set: the policy refuses and hides nothing")
	}
	if before.policy != nil && reflect.DeepEqual(before.cfg.Policy, cfg.Policy) {
		return before.policy
	}
	p, err := cfg.Policy.Compile(g.noteFailedRule)
	if err != nil {
		panic("a valid policy does not compile: " + err.Error()) //nolint:forbidigo // Validate compiles it
	}
	used := &policyInUse{Policy: p, dryRun: cfg.Policy.DryRun, allowed: make(map[string]metrics.Counter)}
	for i := range cfg.Policy.Rules {
		r := &cfg.Policy.Rules[i]
		switch { // begin with zero
		case r.Allow != "":
			used.allowed[r.Name] = g.metrics.Decisions(r.Name, policy.Allowed.String())
		case r.Deny != "":
			g.metrics.Decisions(r.Name, policy.Denied.String())
		case r.Confirm != "":
			g.metrics.Decisions(r.Name, policy.Confirm.String())
		default:
			g.metrics.Decisions(r.Name, policy.Needs.String())
		}
	}
	used.allowed[policy.Otherwise] = g.metrics.Decisions(policy.Otherwise, policy.Allowed.String())
	g.metrics.Decisions(policy.Otherwise, policy.Denied.String())
	return used
}

// noteFailedRule records that a rule failed. The log is bounded, so one that fails for each
// call does not flood it.
func (g *Gateway) noteFailedRule(rule string, why policy.Failure) {
	g.metrics.Event(context.Background(), string(policyFailed))
	g.log.LogAttrs(context.Background(), slog.LevelWarn, "a rule of the policy failed", slog.String("rule", rule), slog.String("reason", string(why)))
}

// itemPatterns returns the patterns of rules and filters with their places.
func itemPatterns(cfg *config.Config) []catalog.PlacedPattern {
	var all []catalog.PlacedPattern
	add := func(rule string, on []string) {
		for i, pattern := range on {
			all = append(all, catalog.PlacedPattern{Place: fmt.Sprintf("%s.on[%d]", rule, i), Pattern: pattern})
		}
	}
	for i := range cfg.Policy.Rules {
		add(fmt.Sprintf("policy.rules[%d]", i), cfg.Policy.Rules[i].On)
	}
	for i := range cfg.Filters {
		add(config.FilterPath(i), cfg.Filters[i].On)
	}
	return all
}

// classViews are what classes of principals see of a view. What was used last is kept.
type classViews struct {
	base      *view
	discovery func(*catalog.Catalog) func() (*mcp.Result, error)
	latest    [64]atomic.Pointer[classView] // to find without the lock
	all       recent[policy.Class, *classView]
}

// classView is what a class of principals sees of a view.
type classView struct {
	class policy.Class
	build sync.Once

	verdicts *verdicts

	// view has the items that are not hidden; it is nil in a dry run.
	view *view

	backends map[string]bool // that have an item which is not hidden

	subject  *policy.Subject // of the class
	unlisted sync.Map        // by unlistedKey, whether the class may see something of it
}

// unlistedKey is the items of a kind of a backend that has not listed them.
type unlistedKey struct {
	of   *activeBackend
	kind catalog.Kind
}

// maySee reports whether the client of a view may see some item of a backend, whatever the backend
// lists. A client that may not does not wait for the lists, and is not told why they are missing.
func (v *view) maySee(b *activeBackend, k catalog.Kind) bool {
	if v.class == nil {
		return true
	}
	key := unlistedKey{b, k}
	if may, ok := v.class.unlisted.Load(key); ok {
		return may == true
	}
	u := policy.Unlisted{Kind: policyKind(k), Backend: b.Name()}
	if isNamed(k) {
		u.Prefix, u.Renamed = b.srv.NamePrefix(), b.srv.Rename
	}
	may := v.policy.MayAllow(v.class.subject, &u)
	v.class.unlisted.Store(key, may)
	return may
}

// withClasses lets a view have parts for classes of principals, if it has a policy.
func (g *Gateway) withClasses(v *view) {
	if v.policy != nil {
		v.classes = &classViews{base: v, discovery: g.discoveryOf}
	}
}

// of returns what a subject sees of the view.
func (c *classViews) of(s *policy.Subject) *classView {
	class := s.Class()
	slot := &c.latest[class[0]%byte(len(c.latest))]
	seen := slot.Load()
	if seen == nil || seen.class != class {
		seen = c.all.getOrAdd(class, func() *classView { return &classView{class: class} })
		slot.Store(seen)
	}
	// Not under the lock: with thousands of items it takes long.
	seen.build.Do(func() { seen.fill(s, c) })
	return seen
}

// fill decides about each item of the view.
func (seen *classView) fill(s *policy.Subject, c *classViews) {
	v := c.base
	seen.subject, seen.verdicts = s, v.policy.verdictsFor(s, v.items)
	if v.policy.dryRun {
		return
	}
	part := *v
	part.catalog = v.catalog.PolicyView(
		func(e *catalog.Entry) bool { return !seen.verdicts.of(e).Hidden() },
		func(e *catalog.Entry) bool {
			verdict := v.policy.List(seen.subject, policy.NewItem(policyKind(e.Kind), e.BackendName, e.Offered(), e.Own, nil))
			return !verdict.Hidden()
		})
	part.class = seen
	part.discovery = c.discovery(part.catalog)
	part.profiles = nil // it is of one already
	seen.backends = part.catalog.Backends()
	part.announced = v.announcedIn(func(name string) bool { return seen.backends[name] })
	seen.view = &part
}

// announcedIn returns the changes that the backends for which has returns true have announced.
func (v *view) announcedIn(has func(name string) bool) (announced notices) {
	for name, noted := range v.announcedBy {
		if !has(name) {
			continue
		}
		for k, n := range noted {
			announced[k] += n
		}
	}
	return announced
}

// asSeenBy returns the part of a view that a client sees by the policy. Without a policy it is
// the view.
func (g *Gateway) asSeenBy(of viewer, v *view) *view {
	if v.policy == nil || v.policy.dryRun || v.class != nil {
		return v
	}
	return v.classes.of(v.policy.Subject(of.currentIdentity(), of.Peer)).view
}

// identityKey is the key, in the client's scope, of the identity of its latest request.
type identityKey struct{}

// latestIdentity is the identity of the latest request of a session: what its streams are sent
// is for it.
type latestIdentity struct{ atomic.Pointer[mcp.Identity] }

func latestIdentityOf(scope *mcp.Scope) *latestIdentity {
	kept, _ := scope.Value(identityKey{}, func() any { return new(latestIdentity) })
	latest, _ := kept.(*latestIdentity)
	return latest // nil if the session has ended
}

// noteIdentity keeps the identity of a request for the streams of its session. If the session
// sees something else with it, its streams are notified.
func (g *Gateway) noteIdentity(req *mcp.Request) {
	if req.Scope == nil || req.Identity == nil {
		return
	}
	latest := latestIdentityOf(req.Scope)
	if latest == nil {
		return
	}
	before, p := latest.Swap(req.Identity), g.view.Load().policy
	if p == nil || before == nil || before == req.Identity {
		return
	}
	if p.Subject(before, req.Client).Class() != p.Subject(req.Identity, req.Client).Class() {
		g.changed.wakeIn(req.Scope)
	}
}

// currentIdentity returns the identity that a client is judged by: that of the request, or for
// what a session is sent besides, that of its latest request.
func (c viewer) currentIdentity() *mcp.Identity {
	if c.identity != nil {
		return c.identity
	}
	if c.Scope != nil {
		if latest := latestIdentityOf(c.Scope); latest != nil {
			if id := latest.Load(); id != nil {
				return id
			}
		}
	}
	if c.Principal != "" {
		return &mcp.Identity{Principal: c.Principal}
	}
	return nil
}
