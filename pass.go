// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"strings"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// This file has what a profile with "extensions": "pass" has besides the rest: requests and notifications
// that the gateway does not know, which it forwards to the only server of the profile.

// unread is what the record of a call has if nothing but its method was read.
const unread = "unread"

// passingProfiles returns the profiles that pass all extensions, or nil.
func passingProfiles(cfg *config.Config) map[string]bool {
	var all map[string]bool
	for i := range cfg.Profiles {
		if p := &cfg.Profiles[i]; p.Passes() {
			if all == nil {
				all = make(map[string]bool)
			}
			all[p.Name] = true
		}
	}
	return all
}

// withExtensions returns a request with the setting of its profile: whether the extensions of its client are
// shown to servers. For nearly all it is the request itself.
func (g *Gateway) withExtensions(req *mcp.Request) *mcp.Request {
	if req.Client == nil || req.Client.PassesExtensions == g.view.Load().passing[req.Profile] {
		return req
	}
	own, client := *req, *req.Client
	client.PassesExtensions = !client.PassesExtensions
	own.Client = &client
	return &own
}

// isPassable reports whether a method is of no revision, and of no extension that is translated: those below
// tasks/ have ids that the gateway replaces.
func isPassable(method string) bool { return !mcp.IsMethod(method) && !isAboutTask(method) }

// errUnknownMethod is the error for a method that nothing here has.
func errUnknownMethod(method string) error {
	return mcp.Errorf(mcp.CodeMethodNotFound, "unknown method %q", shorten(method))
}

// pass serves a request with a method that the gateway does not know. It is sent at most once.
func (g *Gateway) pass(ctx context.Context, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error) {
	v := g.viewFor(viewerOf(req))
	isNotification := strings.HasPrefix(req.Method, "notifications/")
	switch {
	case !v.catalog.PassesExtensions() || !isPassable(req.Method) || len(v.backends) == 0 || isNotification && !req.Passed:
		return nil, errUnknownMethod(req.Method)
	case isNotification:
		return g.passNotification(req, v) //nolint:contextcheck // outlives the request on purpose
	}
	c, req := g.takeCall(req)
	c.name, c.passed = req.Method, true
	// Deferred, because a Handler may panic or call runtime.Goexit.
	defer func() {
		g.recordCall(ctx, req, &c, res, err)
		err = nameCall(err, &c)
	}()
	b := v.backends[0]
	var ok bool
	if c.verdict, ok = g.admitPassed(ctx, req, v, b); !ok {
		return nil, errUnknownMethod(req.Method)
	}
	if err := g.charge(ctx, req, &catalog.Entry{Name: b.methodName(req.Method)}); err != nil {
		return nil, err
	}
	own := *req
	own.Passed, own.TakesInputRequired = true, false // a question of the gateway has no place in the answer
	item := admitted{view: v, entry: &catalog.Entry{Backend: 0, BackendName: b.Name(), Name: req.Method, Own: req.Method}, why: c.verdict}
	c.backend, res, err = g.forward(ctx, item, mcp.FieldNone, &own, caller)
	return res, err
}

// methodName returns the name by which rules and quotas are about a method of a backend that is not known.
func (b *activeBackend) methodName(method string) string { return b.srv.NamePrefix() + method }

// admitPassed reports whether the policy allows a request for an unknown method: the method, and each item
// of the server whatever the arguments are, since nothing is known of what the method does with them.
func (g *Gateway) admitPassed(ctx context.Context, req *mcp.Request, v *view, b *activeBackend) (verdict, bool) {
	if v.policy == nil {
		return verdict{}, true
	}
	d := v.decidePassed(viewerOf(req), req.Method, b)
	why := verdict{decision: d.Effect.String(), rule: d.Rule}
	if d.Effect == policy.Allowed {
		v.policy.allowed[d.Rule].Inc()
		return why, true
	}
	kind := policyDenied
	why.decision = policy.Denied.String()
	if v.policy.dryRun {
		kind, why.decision = policyDryRun, "dry_run_"+why.decision
	}
	g.metrics.Decisions(d.Rule, why.decision).Inc()
	g.noteIdentityEvent(ctx, &identityEvent{
		kind: kind, identity: viewerOf(req).currentIdentity(), session: sessionOf(req),
		detail: "method " + quoteName(req.Method), verdict: why,
	})
	return why, v.policy.dryRun
}

func (v *view) decidePassed(of viewer, method string, b *activeBackend) policy.Decision {
	s := v.policy.Subject(of.currentIdentity(), of.Peer)
	d := v.policy.Decide(s, policy.NewItem(policy.OtherMethod, b.Name(), b.methodName(method), method, nil), &policy.Call{Method: method}, nil)
	if d.Effect != policy.Allowed {
		return d
	}
	all := v.classes.of(s).verdicts
	for k := range catalog.NumKinds {
		for e := range v.classes.base.catalog.Entries(k) {
			if of := all.of(e); !e.IsOwn() && of.Effect != policy.Allowed {
				return policy.Decision{Effect: of.Effect, Rule: of.Rule}
			}
		}
	}
	return d
}

// passNotification forwards a notification of a client with a session, in the order in which they came. One
// that the policy does not allow, or that finds the queue full, is dropped.
func (g *Gateway) passNotification(req *mcp.Request, v *view) (*mcp.Result, error) {
	b := v.backends[0]
	if _, ok := g.admitPassed(g.ctx, req, v, b); !ok || req.Scope == nil {
		return mcp.NewResult(nil)
	}
	if g.notifyInOrder(b, req, false) == 1 {
		g.log.Warn("a client sends notifications of an extension faster than its server accepts them; dropping some", slog.String("backend", b.Name()))
	}
	return mcp.NewResult(nil)
}
