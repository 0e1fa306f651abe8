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
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/internal/observe"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// InProcess is a backend in this process.
type InProcess struct {
	Name    string  // as the key of mcpServers, where none that is enabled has it too
	Prefix  *string // as in [Backend]
	Handler mcp.Handler
}

// Options is what a Gateway is given besides its configuration. The zero value
// is right for most.
type Options struct {
	// InProcess are backends without a process or an address, in their order
	// after those of the configuration.
	InProcess []InProcess

	// OneClient says that all requests come from one client, as those of ServeStdio do
	// where nothing else is served. A backend is then started for that client, with its
	// capabilities and in its session, once the first request names it.
	OneClient bool

	// Transport carries the HTTP requests to backends. nil is one of each
	// backend's own, with the limits of the configuration. Redirects are never
	// followed.
	Transport http.RoundTripper

	// Grace is how long the process of a backend is given at each step of its
	// end: after its input was closed, and after it was asked to end. Zero is 5 s.
	Grace time.Duration

	// ProcessLevel is the level of the log records about what the processes of backends
	// write to standard error, and about their starts and ends. 0 is [slog.LevelInfo].
	ProcessLevel slog.Level

	// Logger may be nil. The Gateway bounds what it writes to it, so that nobody
	// from outside can flood it, and counts the records that it leaves out. It
	// does so on a goroutine of its own: nothing waits for a log that is not taken.
	Logger *slog.Logger
}

// Gateway is one MCP endpoint in front of many. It is an [http.Handler] for
// clients on HTTP, serves clients on stdio, and is an [mcp.Handler] itself. Its
// methods may be called concurrently.
type Gateway struct {
	opt     Options
	log     *slog.Logger
	bound   *observe.Bounded // the handler of log
	info    []byte           // our Implementation object
	version string           // in it
	started time.Time
	server  *server.Server
	metrics *observe.Metrics
	audit   *observe.Audit
	lag     *observe.Lag
	taskIDs *taskIDs
	secrets atomic.Pointer[redact.Redactor] // of all backends

	refusal      atomic.Pointer[Refusal] // of the last reload
	view         atomic.Pointer[view]
	changed      broadcast // for clients that listen
	built        broadcast // for requests that wait for a catalog
	startSlots   startSlots
	perClient    perClientLists
	onlyClient   *onlyClient // nil unless Options.OneClient
	taskRegistry taskRegistry
	rebuild      chan struct{} // capacity 1: the catalog is to be built anew

	ctx    context.Context //nolint:containedctx // the life of the goroutines below, which outlive every request
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines that New and Reload start

	mu       sync.Mutex // one Reload at a time; nothing is added to wg once closed
	draining bool
	closed   bool
}

// New returns a Gateway that follows the backends of the configuration. It does
// not wait for any of them. The error is of type [Problems] where the
// configuration cannot work, two backends have one name, or its audit.file cannot
// be opened. The Gateway must be ended by Shutdown or Close.
func New(cfg Config, opt Options) (*Gateway, error) {
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
	return g, nil
}

// newGateway returns a Gateway at which nothing moves yet.
func newGateway(effective *config.Config, opt Options) (*Gateway, error) {
	bound := observe.Bound(opt.Logger.Handler())
	g := &Gateway{
		opt:        opt,
		log:        slog.New(bound),
		bound:      bound,
		version:    cmp.Or(effective.Version, buildVersion()),
		started:    time.Now(),
		rebuild:    make(chan struct{}, 1),
		startSlots: newStartSlots(),
		lag:        observe.NewLag(),
	}
	if opt.OneClient {
		g.onlyClient = &onlyClient{known: make(chan struct{})}
	}
	g.info = implementation(effective.Name, g.version)
	g.server = server.New(g, g.serverConfig(effective))
	g.view.Store(&view{cfg: effective})
	var err error
	if g.taskIDs, err = newTaskIDs(effective); err != nil {
		return nil, err
	}
	if g.metrics, err = g.newMetrics(); err != nil {
		return nil, err
	}
	g.audit = observe.NewAudit(g.log, func() { g.metrics.AuditFailure(context.Background()) })
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g, nil
}

// ServeHTTP serves the MCP endpoint, whatever the path of the request is.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.server.ServeHTTP(w, r) }

// SSE returns the endpoint of HTTP with SSE for clients of 2024-11-05, whatever the
// path of the request is. It stands beside the MCP endpoint, at a path of its own.
func (g *Gateway) SSE() http.Handler { return g.server.SSE() }

// ServeStdio serves one client on a pair of pipes. It returns when the client
// has closed r, when ctx ends, or when the Gateway does.
func (g *Gateway) ServeStdio(ctx context.Context, r io.Reader, w io.Writer) error {
	return g.server.ServeStdio(ctx, r, w)
}

// Drain begins the end of the Gateway: Ready reports false from now on, and new
// sessions are refused. All else goes on until Shutdown or Close, for the time
// that load balancers need to notice. It may be called again.
func (g *Gateway) Drain() {
	g.markDraining()
	g.server.Quiesce()
}

func (g *Gateway) markDraining() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.draining = true
}

// Shutdown ends the Gateway in order: it takes nothing new, lets what is running
// end, ends the streams, and then the backends. When ctx ends first, what is
// left is cut. It returns after the last goroutine, and may be called again.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.Drain()
	err := g.server.Shutdown(ctx)
	return errors.Join(err, g.stop(ctx))
}

// Close ends the Gateway at once. Calls in flight end with an error.
func (g *Gateway) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := g.server.Close()
	return errors.Join(err, g.stop(ctx))
}

// closeWithin bounds the polite end of backends when the Gateway is closed:
// child processes get end-of-file, then a signal, then a stronger one.
const closeTimeout = 12 * time.Second

// stop ends the backends and all goroutines. Only the first call does anything.
func (g *Gateway) stop(ctx context.Context) error {
	if !g.markClosed() {
		return nil
	}
	g.cancel()
	backends := g.view.Load().backends
	errs := make([]error, len(backends))
	var ending sync.WaitGroup
	for i, b := range backends {
		// Waited for below; bounded by ctx and by what a backend is given to end.
		ending.Go(func() { errs[i] = b.stop(ctx) })
	}
	ending.Wait()
	g.wg.Wait()
	g.flush(ctx)
	return errors.Join(errs...)
}

// lastWordsWithin is how long the log and the audit record may take to be
// written when all else has ended, be that because ctx has.
const flushTimeout = time.Second

func (g *Gateway) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	g.audit.Close(ctx)
	g.bound.Flush(ctx)
}

// begin runs f, which ends with g.ctx, in a goroutine that stop waits for. It reports
// false where the Gateway has ended: a request may come until then from whoever has it
// as a Handler.
func (g *Gateway) begin(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(f) // waited for by stop; ended by g.ctx
	return true
}

func (g *Gateway) markClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.closed
	g.closed = true
	return first
}
