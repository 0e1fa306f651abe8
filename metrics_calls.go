// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/audit"
	"github.com/signalbox-mcp/signalbox/internal/metrics"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// backendMetrics are the histograms of one backend.
type backendMetrics struct {
	server, client *metrics.Operations
}

// backendMetrics returns those of a backend. They outlive it: a reload that replaces it
// does not reset them.
func (g *Gateway) backendMetrics(name string) backendMetrics {
	g.metrics.AddBackend(name)
	return backendMetrics{g.metrics.ServerOperations(name), g.metrics.ClientOperations(name)}
}

// observeCall counts a call that has ended.
func (g *Gateway) observeCall(c *recorder.Call, by *servedBy, err error) {
	b := by.backend
	outcome, kind := audit.Outcome(c.Outcome), metrics.NoError
	switch outcome {
	case audit.ToolError:
		kind = metrics.ToolError
	case audit.Cancelled:
		kind = metrics.Cancelled
	case audit.Refused, audit.Failed:
		kind = metrics.ErrorType(c.Code)
	case audit.OK, audit.InputRequired, audit.TaskBegun:
	}
	took, sent := atBackend(c)
	switch {
	case b == nil:
		g.unserved.Observe(c.Method, kind, c.Ended)
	case c.Method == "tools/call" && g.metrics.HasTools() && g.view.Load().offersTool(b.Name(), c.Name):
		b.metrics.server.ObserveTool(c.Name, kind, c.Ended)
		if sent {
			b.metrics.client.ObserveTool(c.Name, kind, took)
		}
	default:
		b.metrics.server.Observe(c.Method, kind, c.Ended)
		if sent {
			b.metrics.client.Observe(c.Method, kind, took)
		}
	}
	if f, ok := errors.AsType[*mcp.Fault](err); ok && outcome == audit.Failed && by.outer == nil { // an inner call has counted it
		g.countFailure(b, f)
	}
}

// offersTool reports whether clients get a tool of a backend under a name.
func (v *view) offersTool(backend, name string) bool {
	e, ok := v.catalog.Tool(name)
	return ok && e.BackendName == backend
}

// atBackend returns how long a call took from when it was sent to its backend until the
// answer was there. It reports false if it was not sent.
func atBackend(c *recorder.Call) (took time.Duration, sent bool) {
	from, until := c.Stages[mcp.StageSent], c.Stages[mcp.StageLastByte]
	if from < 0 {
		if c.Attempts > 0 {
			return 0, false
		}
		from = max(0, c.Stages[mcp.StageResolved]) // in this process
	}
	if until < 0 {
		until = c.Ended
	}
	return max(0, until-from), true
}

// countFailure counts a failure of a backend. b is nil if the call did not reach it.
func (g *Gateway) countFailure(b *activeBackend, f *mcp.Fault) {
	if b == nil {
		// The name in a Fault may be that of a backend of a gateway behind this one.
		var ok bool
		if b, ok = g.view.Load().backend(f.Backend); !ok {
			return
		}
	}
	g.countFailureOf(b.Name(), f)
}

func (g *Gateway) countFailureOf(name string, f *mcp.Fault) {
	code := f.Reason
	if code == "" {
		code = metrics.ErrorType(f.Code)
	}
	g.metrics.BackendFailure(name, code)
}

// observeRequest counts a request of a client that is for no single backend, such as a
// list.
func (g *Gateway) observeRequest(method string, began time.Time, err error) {
	g.unserved.Observe(method, errorType(err), time.Since(began))
}

func errorType(err error) string {
	if err == nil {
		return metrics.NoError
	}
	return metrics.ErrorType(mcp.ToWire(err).Code)
}

// observeOwn returns a function that counts the gateway's own requests to a backend.
func (g *Gateway) observeOwn(name string, m backendMetrics) func(method string, took time.Duration, err error) {
	return func(method string, took time.Duration, err error) {
		if took > 0 {
			m.client.Observe(method, errorType(err), took)
		}
		if f, ok := errors.AsType[*mcp.Fault](err); ok {
			g.countFailureOf(name, f)
		}
	}
}
