// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/quota"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// useQuotas puts the quotas of a configuration in force.
func (g *Gateway) useQuotas(cfg *config.Config) {
	rules := make([]quota.Rule, len(cfg.Quotas))
	for i := range cfg.Quotas {
		q := &cfg.Quotas[i]
		rules[i] = quota.Rule{
			PerPrincipal: q.Per == config.QuotaPerPrincipal, On: q.On,
			Calls: q.Calls.Calls, Every: q.Calls.Every, Burst: q.Burst,
		}
		g.metrics.QuotaRefusals(quotaPlace(i)) // begins with zero
	}
	g.quotas.Use(rules)
}

// quotaPlace returns the place of a quota in the configuration.
func quotaPlace(i int) string { return "quotas[" + strconv.Itoa(i) + "]" }

// charge charges a call that will be sent to a backend to the quotas. The error is a refusal.
func (g *Gateway) charge(ctx context.Context, req *mcp.Request, item *catalog.Entry) error {
	var refused quota.Refusal
	var ok bool
	if isNamed(item.Kind) {
		refused, ok = g.quotas.Take(req.Principal, item.Name)
	} else {
		refused, ok = g.quotas.TakeURI(req.Principal, item.Name, item.Plain)
	}
	if ok {
		return nil
	}
	return g.refuseQuota(ctx, req, refused)
}

func (g *Gateway) refuseQuota(ctx context.Context, req *mcp.Request, refused quota.Refusal) error {
	place := quotaPlace(refused.Index)
	g.metrics.QuotaRefusals(place).Inc()
	g.noteEvent(ctx, server.Event{Kind: server.Limited, Principal: req.Principal, Session: sessionOf(req), Detail: place})
	callers := "all callers together"
	if refused.Rule.PerPrincipal {
		callers = "each principal"
	}
	f := &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.NotDispatched, Message: fmt.Sprintf("the quota of %d calls in %s for %s is used up (%s), retry in %s",
		refused.Rule.Calls, shortDuration(refused.Rule.Every), callers, place, shortDuration(roundUp(refused.Wait)))}
	return &mcp.Denied{Status: http.StatusTooManyRequests, RetryAfter: refused.Wait, Err: f.Wire()}
}

// roundUp returns a wait in whole seconds, or a short one in milliseconds.
func roundUp(d time.Duration) time.Duration {
	unit := time.Second
	if d < unit {
		unit = time.Millisecond
	}
	return (d + unit - 1).Truncate(unit)
}
