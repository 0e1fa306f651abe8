// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"slices"
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

	dryRun bool
	rules  []string // the names, in order, and policy.Otherwise

	allowed map[string]metrics.Counter // of the calls that a rule has allowed
}

// compilePolicy returns the policy of a valid configuration, or nil if it has none.
func (g *Gateway) compilePolicy(cfg *config.Config) *policyInUse {
	if cfg.Policy.IsZero() {
		return nil
	}
	p, err := cfg.Policy.Compile(g.noteFailedRule)
	if err != nil {
		panic("a valid policy does not compile: " + err.Error()) //nolint:forbidigo // Validate compiles it
	}
	if cfg.Policy.DryRun {
		g.log.Warn("policy.dryRun is set: the policy refuses and hides nothing")
	}
	used := &policyInUse{Policy: p, dryRun: cfg.Policy.DryRun, allowed: make(map[string]metrics.Counter)}
	for i := range cfg.Policy.Rules {
		r := &cfg.Policy.Rules[i]
		used.rules = append(used.rules, r.Name)
		switch { // begin with zero
		case r.Allow != "":
			used.allowed[r.Name] = g.metrics.Decisions(r.Name, policy.Allowed.String())
		case r.Deny != "":
			g.metrics.Decisions(r.Name, policy.Denied.String())
		default:
			g.metrics.Decisions(r.Name, policy.Needs.String())
		}
	}
	used.rules = append(used.rules, policy.Otherwise)
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

// policyPatterns returns the patterns of the rules with their places.
func policyPatterns(cfg *config.Config) []catalog.PlacedPattern {
	var all []catalog.PlacedPattern
	for i := range cfg.Policy.Rules {
		for k, pattern := range cfg.Policy.Rules[i].On {
			all = append(all, catalog.PlacedPattern{Place: fmt.Sprintf("policy.rules[%d].on[%d]", i, k), Pattern: pattern})
		}
	}
	return all
}

// maxClasses is the number of classes that a view keeps what they see for.
const maxClasses = 1024

// classViews are what classes of principals see of a view. What was used last is kept.
type classViews struct {
	base      *view
	discovery func(*catalog.Catalog) func() (*mcp.Result, error)
	items     func() map[*catalog.Entry]policyItem
	recent    [64]atomic.Pointer[classView] // to find without the lock

	mu      sync.Mutex
	byClass map[policy.Class]*list.Element // of classView
	order   list.List                      // the latest one first
}

// classView is what a class of principals sees of a view.
type classView struct {
	class policy.Class
	build sync.Once

	// view has the items that are not hidden; it is nil in a dry run.
	view *view

	// verdicts are those about items, except for those all of whose calls are allowed, and
	// those that are hidden. In a dry run they include the latter.
	verdicts map[*catalog.Entry]*policy.Verdict

	// rules are the rules that allow items, by their places: indices in policyInUse.rules.
	rules []uint16

	backends map[string]bool // that have an item which is not hidden
}

// withClasses lets a view have parts for classes of principals, if it has a policy.
func (g *Gateway) withClasses(v *view) {
	if v.policy == nil {
		return
	}
	v.classes = &classViews{base: v, discovery: g.discoveryOf, byClass: make(map[policy.Class]*list.Element), items: sync.OnceValue(v.policyItems)}
}

// policyItem is an item of a catalog as rules see it, and its place among them.
type policyItem struct {
	*policy.Item

	place int
}

// policyItems returns the items of the catalog as rules see them.
func (v *view) policyItems() map[*catalog.Entry]policyItem {
	items := make(map[*catalog.Entry]policyItem)
	for k := range catalog.NumKinds {
		for e := range v.catalog.Entries(k) {
			items[e] = policyItem{v.policyItem(k, e), len(items)}
		}
	}
	return items
}

// policyItem returns an item of the catalog as rules see it.
func (v *view) policyItem(k catalog.Kind, e *catalog.Entry) *policy.Item {
	if b, ok := v.backendOf(e); ok && b.isGate(v, e) {
		return policy.NewGate(e.BackendName, b.srv.NamePrefix(), e.Name, e.Own, e.JSON())
	}
	return policy.NewItem(policyKind(k), e.BackendName, e.Name, e.Own, e.JSON())
}

func policyKind(k catalog.Kind) string {
	return [catalog.NumKinds]string{catalog.Tools: policy.Tool, catalog.Prompts: policy.Prompt, catalog.Resources: policy.Resource, catalog.Templates: policy.Template}[k]
}

// of returns what a subject sees of the view.
func (c *classViews) of(s *policy.Subject) *classView {
	class := s.Class()
	slot := &c.recent[class[0]%byte(len(c.recent))]
	seen := slot.Load()
	if seen == nil || seen.class != class {
		seen = c.find(class)
		slot.Store(seen)
	}
	// Not under the lock: with thousands of items it takes long.
	seen.build.Do(func() { seen.fill(s, c) })
	return seen
}

func (c *classViews) find(class policy.Class) *classView {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byClass[class]; ok {
		c.order.MoveToFront(at)
		return at.Value.(*classView) //nolint:forcetypeassert // the list has nothing else
	}
	if c.order.Len() >= maxClasses {
		oldest := c.order.Remove(c.order.Back()).(*classView) //nolint:forcetypeassert // likewise
		delete(c.byClass, oldest.class)
	}
	made := &classView{class: class}
	c.byClass[class] = c.order.PushFront(made)
	return made
}

// fill decides about each item of the view.
func (seen *classView) fill(s *policy.Subject, c *classViews) {
	v, items := c.base, c.items()
	seen.verdicts = make(map[*catalog.Entry]*policy.Verdict)
	seen.rules = make([]uint16, len(items))
	hidden := make(map[*catalog.Entry]bool)
	for k := range catalog.NumKinds {
		for e := range v.catalog.Entries(k) {
			verdict := v.policy.List(s, items[e].Item)
			switch {
			case verdict.Hidden() && !v.policy.dryRun:
				hidden[e] = true
			case verdict.Effect == policy.Allowed:
				seen.rules[items[e].place] = uint16(slices.Index(v.policy.rules, verdict.Rule))
			default:
				seen.verdicts[e] = &verdict
			}
		}
	}
	if v.policy.dryRun {
		return
	}
	part := *v
	part.catalog = v.catalog.PolicyView(func(e *catalog.Entry) bool { return !hidden[e] })
	part.class = seen
	part.discovery = c.discovery(part.catalog)
	part.profiles = nil // it is of one already
	seen.backends = part.catalog.Backends()
	part.announced = announcedTo(v, seen.backends)
	seen.view = &part
}

// announcedTo returns the changes that backends with a visible item have announced.
func announcedTo(v *view, backends map[string]bool) (announced notices) {
	for name, noted := range v.announcedBy {
		if !backends[name] {
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
	p := g.view.Load().policy
	if p == nil && req.Method != "server/discover" { // which opens the session
		return
	}
	latest := latestIdentityOf(req.Scope)
	if latest == nil {
		return
	}
	before := latest.Swap(req.Identity)
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
