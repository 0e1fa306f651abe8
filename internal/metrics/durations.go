// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The names, labels and bounds are those of the semantic conventions for MCP of
// OpenTelemetry (mcp.server.operation.duration and so on), with three bounds below their
// first. The histograms of operations are our own, and exported as constant ones: those of
// the libraries cost a call 75 ns and 440 ns, which is too much twice for a budget of 500.

// otherMethod is the label mcp_method_name of all methods that the gateway does not know.
const otherMethod = "_OTHER"

// The label error_type of operations, besides the codes of errors.
const (
	NoError    = ""
	ToolError  = "tool_error" // a result with isError
	Cancelled  = "cancelled"  // by the client, or by a shutdown
	otherError = "_OTHER"     // an error with a code that the backend has chosen
)

// ErrorType returns the label of an error with the code. It allocates nothing.
func ErrorType(code int64) string {
	if i := slices.Index(codes, code); i >= 0 {
		return types[len(types)-len(codes)+i]
	}
	return otherError
}

//nolint:gochecknoglobals // constant
var (
	// names are the label mcp_method_name of operations. Another one is not measured.
	names = []string{
		"tools/call", "prompts/get", "resources/read", "completion/complete",
		"tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover",
		otherMethod,
		"skills/list", "skills/get", "resources/directory/read",
	}

	// codes are those of the protocol and of Signalbox.
	codes = []int64{
		mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams, mcp.CodeInternalError,
		mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion, mcp.CodeResourceNotFound, mcp.CodeURLElicitationRequired,
		mcp.CodeBackendUnavailable, mcp.CodeBackendFailed, mcp.CodeDeadline, mcp.CodeShuttingDown, mcp.CodeUnsupported, mcp.CodeLimit, mcp.CodeSessionEnded,
	}

	// types are all values of the label error_type: those of above, and the codes in their order.
	types = errorTypes()
)

func errorTypes() []string {
	all := []string{NoError, ToolError, Cancelled, otherError}
	for _, code := range codes {
		all = append(all, strconv.FormatInt(code, 10))
	}
	return all
}

// bounds are the upper bounds of the buckets.
//
//nolint:gochecknoglobals // constant
var bounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute,
}

// histogram counts durations. The zero value is ready, and its methods may be called
// concurrently.
type histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// Observe counts a duration.
func (h *histogram) Observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// metric returns the current values.
func (h *histogram) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(bounds))
	var count uint64
	for i, bound := range bounds {
		count += h.counts[i].Load()
		buckets[bound.Seconds()] = count
	}
	count += h.counts[len(bounds)].Load()
	return prometheus.MustNewConstHistogram(desc, count, time.Duration(h.sum.Load()).Seconds(), buckets, labels...)
}

// Operations are the durations of the operations of one backend, or of none.
type Operations struct {
	backend    string
	histograms [][]atomic.Pointer[histogram] // by method and type of error, made when they are needed
	tools      *tools                        // of all backends
}

func newOperations(backend string, named *tools) *Operations {
	o := &Operations{backend: backend, histograms: make([][]atomic.Pointer[histogram], len(names)), tools: named}
	for i := range o.histograms {
		o.histograms[i] = make([]atomic.Pointer[histogram], len(types))
	}
	return o
}

// Observe counts an operation. It ignores one of a method that is not measured. errorType
// is NoError, ToolError, Cancelled, or what ErrorType returned.
func (o *Operations) Observe(method, errorType string, d time.Duration) {
	i, j := slices.Index(names, method), slices.Index(types, errorType)
	if i < 0 || j < 0 {
		return
	}
	p := &o.histograms[i][j]
	h := p.Load()
	if h == nil {
		p.CompareAndSwap(nil, new(histogram))
		h = p.Load()
	}
	h.Observe(d)
}

// durations collects the durations of operations of one kind, by backend.
type durations struct {
	desc  *prometheus.Desc
	named *prometheus.Desc // with the label of tools
	tools tools

	mu       sync.Mutex
	backends map[string]*Operations
}

func newDurations(name, help string) *durations {
	labels := []string{"backend", "mcp_method_name", "error_type"}
	return &durations{
		desc:     prometheus.NewDesc(name, help, labels, nil),
		named:    prometheus.NewDesc(name, help, append(slices.Clone(labels), "gen_ai_tool_name"), nil),
		backends: make(map[string]*Operations),
	}
}

// operations returns those of a backend. They begin with tools/call, so that a rate over
// that does not miss the first.
func (d *durations) operations(backend string) *Operations {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.backends[backend]
	if !ok {
		o = newOperations(backend, &d.tools)
		o.histograms[0][0].Store(new(histogram))
		d.backends[backend] = o
	}
	return o
}

// Describe implements prometheus.Collector. It describes nothing: the labels change with the
// configuration.
func (d *durations) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (d *durations) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for backend, o := range d.backends {
		for i := range o.histograms {
			for j := range o.histograms[i] {
				switch h := o.histograms[i][j].Load(); {
				case h == nil:
				case d.tools.on.Load():
					to <- h.metric(d.named, backend, names[i], types[j], "")
				default:
					to <- h.metric(d.desc, backend, names[i], types[j])
				}
			}
		}
	}
	d.tools.collect(d.named, to)
}

// times are the histograms of a Set.
type times struct {
	server, client *durations
	serverSessions prometheus.Histogram
	clientSessions *prometheus.HistogramVec
	failures       *prometheus.CounterVec
}

func newTimes(r *prometheus.Registry) times {
	sessions := func(name, help string) prometheus.HistogramOpts {
		o := prometheus.HistogramOpts{Name: name, Help: help}
		for _, bound := range bounds {
			o.Buckets = append(o.Buckets, bound.Seconds())
		}
		return o
	}
	t := times{
		server:         newDurations("mcp_server_operation_duration_seconds", "Requests of clients, from their receipt until the answer is known."),
		client:         newDurations("mcp_client_operation_duration_seconds", "Requests to backends, from when they are sent until the answer has arrived."),
		serverSessions: prometheus.NewHistogram(sessions("mcp_server_session_duration_seconds", "Sessions of legacy clients that have ended.")),
		clientSessions: prometheus.NewHistogramVec(sessions("mcp_client_session_duration_seconds", "Sessions at legacy backends that have ended."), []string{"backend"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: Prefix + "backend_failures_total", Help: "Calls that a backend did not answer, or not correctly, by the code of the cause or of the error.",
		}, []string{"backend", "code"}),
	}
	r.MustRegister(t.server, t.client, t.serverSessions, t.clientSessions, t.failures)
	return t
}

// ServerOperations returns the durations of the requests of clients that a backend serves;
// "" are those that none serves. The name must be from the configuration.
func (m *Set) ServerOperations(backend string) *Operations { return m.times.server.operations(backend) }

// ClientOperations returns the durations of the requests to a backend.
func (m *Set) ClientOperations(backend string) *Operations { return m.times.client.operations(backend) }

// ServerSession counts a session of a client that has ended.
func (m *Set) ServerSession(d time.Duration) { m.times.serverSessions.Observe(d.Seconds()) }

// ClientSessions returns a function that counts a session at the backend that has ended.
func (m *Set) ClientSessions(backend string) func(time.Duration) {
	h := m.times.clientSessions.WithLabelValues(backend)
	return func(d time.Duration) { h.Observe(d.Seconds()) }
}

// AddBackend begins to count the failures of a backend.
func (m *Set) AddBackend(backend string) {
	for _, code := range []int64{mcp.CodeBackendUnavailable, mcp.CodeBackendFailed, mcp.CodeDeadline} {
		m.times.failures.WithLabelValues(backend, strconv.FormatInt(code, 10))
	}
}

// BackendFailure counts a call that the backend did not answer, or not correctly. The code
// must be a constant: of the cause, or else of the error.
func (m *Set) BackendFailure(backend, code string) {
	m.times.failures.WithLabelValues(backend, code).Inc()
}
