// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Limits of resending a request.
const (
	maxResend    = 2                     // of a request that was not sent
	firstBackoff = 50 * time.Millisecond // doubled each time, with jitter
)

// retryDecision is how to proceed with a failed request.
type retryDecision uint8

const (
	giveUp     retryDecision = iota
	resend                   // not sent, or refused unprocessed: send again after a pause
	reprobe                  // the server has changed its era
	resendOnce               // it may have run, which does no harm
)

// serve sends a request until it has its terminal or must not be sent again. If a
// protocol turns out to be the wrong one, no other request uses it any more.
func (c *Client) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	tries := map[retryDecision]int{}
	for {
		var res *mcp.Result
		sp, err := c.protocol(ctx, caller)
		if err == nil {
			res, err = sp.serve(ctx, req, caller)
			c.release(sp, isRejected(err, wrongEra) || isRejected(err, neverSpoke))
		}
		if err == nil {
			return res, nil
		}
		v := classify(req, err)
		if v == giveUp || tries[v] >= limitOf(v) {
			return nil, unwrap(err)
		}
		tries[v]++
		wait := resendDelay(tries[v])
		if v == reprobe {
			wait = 0 // the server is available; only the protocol was wrong
		}
		if !c.grantRetry(ctx, wait) {
			return nil, unwrap(err)
		}
	}
}

// awaitRetry implements setup.awaitRetry.
func (c *Client) awaitRetry(ctx context.Context, n int) bool {
	return c.grantRetry(ctx, resendDelay(n))
}

// grantRetry waits before another attempt. It reports false if the budget or ctx
// forbids one.
func (c *Client) grantRetry(ctx context.Context, wait time.Duration) bool {
	if ctx.Err() != nil || !c.budget.take(c.servingNow()) {
		return false
	}
	defer c.budget.giveBack()
	c.retries.Add(1)
	return wait == 0 || backoff.Sleep(ctx, wait)
}

// limitOf limits each kind of attempt separately: one request may meet a restarting
// server that is gone, then of another era, then busy.
func limitOf(v retryDecision) int {
	if v == resend {
		return maxResend
	}
	return 1
}

func resendDelay(n int) time.Duration { return backoff.Jitter(firstBackoff << n) }

// classify decides whether a request may be sent again. A request that may have run is
// sent again only if its method is read-only; tools/call never is.
func classify(req *mcp.Request, err error) retryDecision {
	switch {
	case isRejected(err, wrongEra):
		return reprobe
	case isRejected(err, sessionGone):
		return giveUp // a new session was tried already
	}
	// The outcome decides from here on. An error of the server itself is a response,
	// whatever its code.
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

// errNoRetry marks failures that another attempt would only repeat.
var errNoRetry = errors.New("must not be retried now")

// serverRefusal is the cause of a fault that is the server's response. The server would
// respond the same again.
type serverRefusal interface {
	error
	isServerRefusal()
}

func isRefusal(f *mcp.Fault) bool {
	_, ok := errors.AsType[serverRefusal](f.Cause)
	return ok
}

// isReadOnly reports whether the protocol defines the request as one that changes
// nothing. A request with input was prepared by other requests and must not be sent
// twice.
func isReadOnly(req *mcp.Request) bool {
	if req.Params.Has(mcp.FieldInputResponses) || req.Params.Has(mcp.FieldRequestState) {
		return false
	}
	return isReadMethod(req.Method)
}

// isReadMethod reports whether the protocol defines the method as one that changes
// nothing.
func isReadMethod(method string) bool {
	switch method {
	case methodDiscover, methodPing, methodToolsList, "prompts/list", "resources/list", "resources/templates/list",
		"completion/complete", "tasks/get", "resources/read", "prompts/get":
		return true
	default:
		return false
	}
}

// budget limits how many requests wait to be resent, so that retries do not overload a
// backend in trouble. The zero value is ready.
type budget struct {
	mu   sync.Mutex
	used int
}

// minBudget is how many requests may be resent at a time, however few are in progress.
const minBudget = 3

// take reports whether one more of the active requests may be resent. If so, the caller
// must call giveBack.
func (b *budget) take(active int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used >= max(minBudget, active/10) {
		return false
	}
	b.used++
	return true
}

// giveBack is called before the attempt, not after it: the budget limits the requests
// that wait for a retry, and a resent call may take an hour.
func (b *budget) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used--
}

func (c *Client) servingNow() int {
	_, n := c.current()
	return n
}
