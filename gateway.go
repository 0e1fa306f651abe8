// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/audit"
	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/internal/confirm"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/keptlists"
	"github.com/signalbox-mcp/signalbox/internal/logging"
	"github.com/signalbox-mcp/signalbox/internal/metrics"
	"github.com/signalbox-mcp/signalbox/internal/quota"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/server"
)

// Gateway is one MCP endpoint in front of many. It is an [http.Handler] for clients on
// HTTP, serves clients on stdio, and is itself an [mcp.Handler]. Its methods may be
// called concurrently.
type Gateway struct {
	opt      Options
	log      *slog.Logger
	bound    *logging.Bounded // the handler of log
	info     []byte           // our Implementation object
	version  string           // the version in info
	started  time.Time
	server   *server.Server
	auth     *auth.Chain // nil without authentication
	metrics  *metrics.Set
	unserved *metrics.Operations // the durations of requests that no backend serves
	audit    *audit.Recorder
	recorder *recorder.Recorder
	lag      *metrics.Lag
	taskIDs  *taskIDs
	quotas   quota.Quotas
	signIns  signIns
	agreed   confirm.Agreed
	results  *keptResults
	isLocal  bool // the listener is on loopback

	exchanges atomic.Bool    // whether a backend may list with the token of a user
	idTokens  grant.IDTokens // of users, or nil

	operators atomic.Pointer[operators]
	secrets   atomic.Pointer[redact.Redactor] // of all backends

	refusal      atomic.Pointer[Refusal] // of the last reload, or nil
	reloaded     atomic.Pointer[time.Time]
	view         atomic.Pointer[view]
	changed      listeners
	startSlots   startSlots
	perClient    perClientLists
	userLists    *userLists
	seen         clientsSeen
	former       formerNames
	onlyClient   *onlyClient // nil unless Options.OneClient
	taskRegistry taskRegistry
	rebuild      chan struct{} // capacity 1; requests another catalog
	kept         *keptlists.Folder

	changedDefinitions changedDefinitions

	ctx    context.Context //nolint:containedctx // the life of the goroutines below, which outlive every request
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines that New and Reload start

	draining atomic.Bool   // or closed
	stopped  chan struct{} // closed when stop has ended

	mu     sync.Mutex // held during Reload; nothing is added to wg after closed is set
	closed bool
	cut    context.CancelFunc // ends the graceful part of stop; set with closed
}

// New returns a Gateway for the backends of the configuration. It does not wait for
// them to start. The error is of type [config.Problems] if the configuration is invalid, two
// backends have the same name, or its audit.file cannot be opened. The Gateway must be
// stopped with Shutdown or Close.
func New(cfg config.Config, opt Options) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	effective := cfg.Effective()
	if err := checkNames(effective, opt.InProcess); err != nil {
		return nil, err
	}
	if err := access.Orphans(context.Background(), effective, opt.StateFolder); err != nil {
		return nil, err
	}
	g, err := newGateway(effective, opt)
	if err != nil {
		return nil, err
	}
	file, err := openAudit(effective)
	if err != nil {
		return nil, err
	}
	g.audit.Use(g.ctx, file)
	g.apply(effective)
	g.wg.Go(g.keepCatalog) // ends with g.ctx; stop waits for it
	if g.auth != nil {
		g.wg.Go(func() { g.auth.Run(g.ctx) }) // ends with g.ctx; stop waits for it
	}
	g.runIDTokens()
	return g, nil
}

// newGateway returns a Gateway that has started nothing yet.
func newGateway(effective *config.Config, opt Options) (*Gateway, error) {
	bound := logging.Bound(opt.Logger.Handler())
	g := &Gateway{
		opt:        opt,
		log:        slog.New(bound),
		bound:      bound,
		version:    cmp.Or(effective.Version, buildVersion()),
		started:    time.Now(),
		rebuild:    make(chan struct{}, 1),
		stopped:    make(chan struct{}),
		startSlots: newStartSlots(opt.Starts),
		lag:        metrics.NewLag(),
		recorder:   recorder.New(),
	}
	g.userLists = newUserLists(g)
	g.results = newKeptResults()
	g.kept = keptlists.Open(opt.ListsFolder, g.log)
	if opt.OneClient {
		g.onlyClient = &onlyClient{known: make(chan struct{})}
	}
	g.info = implementation(effective.Name, g.version)
	var err error
	if g.auth, err = newAuth(effective, g.log, g.noteForeignProxy); err != nil {
		return nil, err
	}
	g.server = server.New(g, g.serverConfig(effective))
	g.view.Store(&view{cfg: effective, pins: newPinsInUse(effective), ownNames: new(ownNames), replaced: make(chan struct{})})
	if g.taskIDs, err = newTaskIDs(effective); err != nil {
		return nil, err
	}
	if g.metrics, err = g.newMetrics(); err != nil {
		return nil, err
	}
	g.isLocal = effective.IsLocal()
	if g.signIns.desk, err = g.newDesk(effective); err != nil {
		return nil, err
	}
	g.unserved = g.metrics.ServerOperations("")
	g.audit = audit.New(g.log, func() { g.metrics.AuditFailure(context.Background()) })
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g, nil
}

// implementation returns the gateway's Implementation object (2025-11-25 and
// 2026-07-28, schema, Implementation).
func implementation(name, version string) []byte {
	out := jsonscan.AppendString([]byte(`{"name":`), name)
	out = jsonscan.AppendString(append(out, `,"version":`...), version)
	return append(out, '}')
}

// buildVersion returns the version of this module in the running program. The program
// need not be the command: one that embeds a Gateway has the module among its
// dependencies. A build from a checkout has no version.
func buildVersion() string {
	const path = "github.com/signalbox-mcp/signalbox"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == path && m.Version != "" {
			return m.Version
		}
	}
	return "devel"
}

// ServeHTTP serves the MCP endpoint, whatever the path of the request is.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.server.ServeHTTP(w, r) }

// SSE returns the endpoint of HTTP with SSE for clients of 2024-11-05. It ignores the
// path of the request. Serve it at a path other than that of the MCP endpoint.
func (g *Gateway) SSE() http.Handler { return g.server.SSE() }

// ServeStdio serves one client on a pair of pipes. It returns when the client closes r,
// when ctx ends, or when the Gateway is closed.
func (g *Gateway) ServeStdio(ctx context.Context, r io.Reader, w io.Writer) error {
	return g.server.ServeStdio(ctx, r, w)
}

// ServeLocal is ServeStdio for a client of the operator: only the operator can open its
// connection, as for [Local]. Its principal is "local".
func (g *Gateway) ServeLocal(ctx context.Context, r io.Reader, w io.Writer) error {
	return g.server.ServeStdioAs(ctx, localIdentity, r, w)
}

// Drain begins the shutdown: from now on Ready reports false and new sessions are
// refused. All else continues until Shutdown or Close, so that load balancers have time
// to react. It may be called again.
func (g *Gateway) Drain() {
	g.draining.Store(true)
	g.server.Quiesce()
}

// Ready reports whether new traffic is accepted: until Drain, Shutdown or Close is
// called.
func (g *Gateway) Ready() bool { return !g.draining.Load() }

// Shutdown stops the Gateway gracefully: it refuses new requests, waits for running
// ones, ends the streams, and then stops the backends. When ctx ends, it cancels what
// is left. It returns after the last goroutine has ended, and may be called again, also
// while another call of it runs.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.Drain()
	err := g.server.Shutdown(ctx)
	return errors.Join(err, g.stop(ctx))
}

// Close stops the Gateway at once. Calls in flight end with an error.
func (g *Gateway) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := g.server.Close()
	return errors.Join(err, g.stop(ctx))
}

// closeTimeout bounds the graceful stop of backends in Close: child processes get
// end-of-file, then a signal, then a stronger one.
const closeTimeout = 12 * time.Second

// stop stops the backends and all goroutines. A further call waits for the first one, which is no
// longer graceful when the ctx of either ends.
func (g *Gateway) stop(ctx context.Context) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	if !g.markClosed(cut) {
		select {
		case <-g.stopped:
		case <-ctx.Done():
			g.cut()
			<-g.stopped
		}
		return nil
	}
	defer close(g.stopped)
	g.cancel()
	g.results.close()
	backends := g.view.Load().backends
	errs := make([]error, len(backends))
	var ending sync.WaitGroup
	for i, b := range backends {
		// Waited for below; bounded by ctx and by the grace of the backend.
		ending.Go(func() { errs[i] = b.stop(ctx) })
	}
	g.signIns.desk.Close() //nolint:contextcheck // it waits for nothing that has no limit
	ending.Wait()
	g.wg.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	g.audit.Close(ctx)
	g.bound.Flush(ctx)
	return errors.Join(errs...)
}

// flushTimeout bounds the time to write the log and the audit record after all else has
// ended, even if ctx has ended.
const flushTimeout = time.Second

// begin runs f, which must end with g.ctx, in a goroutine that stop waits for. It
// reports false if the Gateway is closed: a program that uses it as a Handler may send
// requests until then.
func (g *Gateway) begin(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(f) // waited for by stop; ended by g.ctx
	return true
}

func (g *Gateway) markClosed(cut context.CancelFunc) (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first = !g.closed; first {
		g.closed, g.cut = true, cut
	}
	g.draining.Store(true)
	return first
}
