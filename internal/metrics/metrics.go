// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics provides the metrics of a gateway, and serves them to scrapers.
//
// It does not depend on servers and clients. The root package, its only user, decides what is
// counted.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// Prefix is the prefix of the names of all metrics.
const Prefix = "signalbox_"

// Instrument is a metric with values that are counted elsewhere. They are read for each
// collection.
type Instrument struct {
	// Name is the name of the metric without Prefix, and without the "_total" that is
	// appended for a counter.
	Name string
	Help string

	// Counter reports whether the values never decrease.
	Counter bool

	// Read returns the current values. It may be called concurrently.
	Read func() []Value
}

// Value is one value of an instrument, with at most two labels. The value of a label must be
// from the configuration or the code and never from a client or a backend, which could
// otherwise fill the memory of the collector.
type Value struct {
	Number       int64
	Key, Label   string
	Key2, Label2 string
}

// One returns the value of an instrument without labels.
func One(n int64) []Value { return []Value{{Number: n}} }

// Set is the metrics of one gateway. Each has its own registry, so that a process can
// have several. Its methods may be called concurrently.
type Set struct {
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider
	times    times
	identity identity

	events, reloads, audit metric.Int64Counter
}

// New returns metrics with the instruments, and with counters for the methods. Counters
// are initialized with zero, for events by the given kinds: an alert on the first event needs
// a previous value. It returns an error if an instrument is invalid.
func New(instruments []Instrument, kinds []string) (*Set, error) {
	m := &Set{registry: prometheus.NewRegistry()}
	m.times = newTimes(m.registry)
	m.identity = newIdentity(m.registry)
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry),
		otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	m.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	meter := m.provider.Meter("github.com/signalbox-mcp/signalbox")
	var errs [3]error
	m.events, errs[0] = meter.Int64Counter(Prefix+"events",
		metric.WithDescription("Rejected requests and other security events, by kind."))
	m.reloads, errs[1] = meter.Int64Counter(Prefix+"reloads",
		metric.WithDescription("Configurations that were applied and refused since the start."))
	m.audit, errs[2] = meter.Int64Counter(Prefix+"audit_failures",
		metric.WithDescription("Entries of the audit record that did not reach its file."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	ctx := context.Background()
	for _, kind := range kinds {
		m.addEvents(ctx, kind, 0)
	}
	m.addReloads(ctx, true, 0)
	m.addReloads(ctx, false, 0)
	m.audit.Add(ctx, 0)
	for _, i := range instruments {
		if err := i.register(meter); err != nil {
			return nil, fmt.Errorf("metric %s: %w", i.Name, err)
		}
	}
	return m, nil
}

func (i Instrument) register(meter metric.Meter) error {
	read := func(_ context.Context, o metric.Int64Observer) error {
		for _, v := range i.Read() {
			o.Observe(v.Number, v.attributes()...)
		}
		return nil
	}
	var err error
	if i.Counter {
		_, err = meter.Int64ObservableCounter(Prefix+i.Name, metric.WithDescription(i.Help), metric.WithInt64Callback(read))
	} else {
		_, err = meter.Int64ObservableGauge(Prefix+i.Name, metric.WithDescription(i.Help), metric.WithInt64Callback(read))
	}
	return err
}

func (v Value) attributes() []metric.ObserveOption {
	if v.Key == "" {
		return nil
	}
	labels := []attribute.KeyValue{attribute.String(v.Key, v.Label)}
	if v.Key2 != "" {
		labels = append(labels, attribute.String(v.Key2, v.Label2))
	}
	return []metric.ObserveOption{metric.WithAttributes(labels...)}
}

// Event counts an event. kind is a constant of the code.
func (m *Set) Event(ctx context.Context, kind string) { m.addEvents(ctx, kind, 1) }

func (m *Set) addEvents(ctx context.Context, kind string, n int64) {
	m.events.Add(ctx, n, metric.WithAttributes(attribute.String("kind", kind)))
}

// Reload counts a reload.
func (m *Set) Reload(ctx context.Context, applied bool) { m.addReloads(ctx, applied, 1) }

func (m *Set) addReloads(ctx context.Context, applied bool, n int64) {
	result := "refused"
	if applied {
		result = "applied"
	}
	m.reloads.Add(ctx, n, metric.WithAttributes(attribute.String("result", result)))
}

// AuditFailure counts an entry that did not reach the file of the audit record.
func (m *Set) AuditFailure(ctx context.Context) { m.audit.Add(ctx, 1) }

// maxScrapes is the maximum number of concurrent collections; more are rejected with 503.
const maxScrapes = 4

// Handler returns a handler for the metrics in the format of Prometheus, including those of
// the process. The latter are created for the first request, as that takes longer than
// creating a gateway.
func (m *Set) Handler() http.Handler {
	show := sync.OnceValue(func() http.Handler {
		all := prometheus.Gatherers{m.registry, processRegistry()}
		return promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { show().ServeHTTP(w, r) })
}

// processRegistry returns the metrics of the process and of the Go runtime.
func processRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
