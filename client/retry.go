// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The bounds of sending a request again.
const (
	maxResend    = 2                     // of a request that never left
	firstBackoff = 50 * time.Millisecond // doubled each time, with jitter
)

// retryDecision is what to do about a request that failed.
type retryDecision uint8

const (
	giveUp     retryDecision = iota
	resend                   // it never left, or the server refused to look at it: after a pause
	reprobe                  // the server speaks another era now
	resendOnce               // it may have run, which does no harm
)

// serve sends a request until it has its terminal or may not be sent again.
func (c *Client) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	tries := map[retryDecision]int{}
	for {
		res, err := c.attempt(ctx, req, caller)
		if err == nil {
			return res, nil
		}
		v := classify(req, err)
		if v == giveUp || tries[v] >= limitOf(v) {
			return nil, unwrap(err)
		}
		tries[v]++
		wait := backoff(tries[v])
		if v == reprobe {
			wait = 0 // the server is well, and only we have changed our mind
		}
		if !c.grantRetry(ctx, wait) {
			return nil, unwrap(err)
		}
	}
}

// again: see setup.
func (c *Client) awaitRetry(ctx context.Context, n int) bool { return c.grantRetry(ctx, backoff(n)) }

// grantRetry waits before another attempt, where the budget and ctx allow one.
func (c *Client) grantRetry(ctx context.Context, wait time.Duration) bool {
	if ctx.Err() != nil || !c.budget.take(c.servingNow()) {
		return false
	}
	defer c.budget.giveBack()
	c.retries.Add(1)
	return wait == 0 || pause(ctx, wait)
}

// attempt sends a request once. A protocol that turned out to be the wrong one is
// given up for all.
func (c *Client) attempt(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	sp, err := c.protocol(ctx, caller)
	if err != nil {
		return nil, err
	}
	res, err := sp.serve(ctx, req, caller)
	c.release(sp, isRejected(err, wrongEra) || isRejected(err, neverSpoke))
	return res, err
}

// limitOf bounds each kind of attempt by itself: a server that restarts may be found
// gone, of another era and busy in the course of one request.
func limitOf(v retryDecision) int {
	if v == resend {
		return maxResend
	}
	return 1
}

// backoff has jitter, so that the calls which a restart has failed together do not
// come back together.
func backoff(n int) time.Duration {
	d := firstBackoff << n
	return d/2 + rand.N(d/2) //nolint:gosec // jitter, not a secret
}

// classify says whether a request may be sent again. What may have been executed is
// sent again only if it is one that reads; a tools/call never is.
func classify(req *mcp.Request, err error) retryDecision {
	switch {
	case isRejected(err, wrongEra):
		return reprobe
	case isRejected(err, sessionGone):
		return giveUp // a new session was tried already
	}
	// From here on the outcome decides. The server's own error is none of ours to
	// question, whatever its code: it is an answer.
	f, ok := unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	switch {
	case !ok, errors.Is(err, errNoRetry):
		return giveUp
	case isRejected(err, busy) && (f.Outcome == mcp.NotDispatched || isReadOnly(req)):
		return resend
	case f.Outcome == mcp.NotDispatched && f.Code == mcp.CodeBackendUnavailable && !isRefusal(f):
		return resend
	case f.Outcome == mcp.Unknown && f.Code == mcp.CodeBackendFailed && isReadOnly(req):
		return resendOnce
	default:
		return giveUp
	}
}

// errNotAgain marks failures that another attempt would only repeat.
var errNoRetry = errors.New("not to be tried again now")

// isRefusal reports whether the server has answered, and would again.
func isRefusal(f *mcp.Fault) bool {
	_, ok := errors.AsType[*refusal](f.Cause)
	return ok
}

// isReading reports whether a request changes nothing, by the protocol. One that
// carries input was prepared by others, and may not come twice.
func isReadOnly(req *mcp.Request) bool {
	if req.Params.Has(mcp.FieldInputResponses) || req.Params.Has(mcp.FieldRequestState) {
		return false
	}
	return isReadMethod(req.Method)
}

// readsOnly reports whether a method changes nothing, by the protocol.
func isReadMethod(method string) bool {
	switch method {
	case methodDiscover, methodPing, methodToolsList, "prompts/list", "resources/list", "resources/templates/list",
		"completion/complete", "tasks/get", "resources/read", "prompts/get":
		return true
	default:
		return false
	}
}

// budget bounds the requests that are being sent again, so that a backend in
// trouble is not given more of it. The zero value is ready.
type budget struct {
	mu   sync.Mutex
	used int
}

// minBudget is how many may be sent again however few are under way.
const minBudget = 3

// take reports whether one of so many active requests may be sent again. It may
// as long as giveBack is not called.
func (b *budget) take(active int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used >= max(minBudget, active/10) {
		return false
	}
	b.used++
	return true
}

// giveBack is called before the attempt, not after it: what is bounded are those who
// wait to try again, and a call that takes an hour is not one of them.
func (b *budget) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used--
}

func (c *Client) servingNow() int {
	_, n := c.current()
	return n
}
