// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

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

// Prefix stands before the name of each metric of ours.
const Prefix = "signalbox_"

// Instrument is one metric whose values somebody else counts. It is read when it
// is asked for.
type Instrument struct {
	// Name is the metric's without Prefix, and without the "_total" that a
	// counter gets.
	Name string
	Help string

	// Counter says that it only grows.
	Counter bool

	// Read returns the values of now. It is called concurrently.
	Read func() []Value
}

// Value is what one instrument shows, for one label at most. The label's value
// comes from the configuration or the code, never from a client or a backend:
// whoever could choose it could fill the memory of whoever collects.
type Value struct {
	Number     int64
	Key, Label string
}

// One is the value of an instrument without labels.
func One(n int64) []Value { return []Value{{Number: n}} }

// Metrics are the metrics of one gateway, in a registry of their own: two in one
// process do not meet. Its methods may be called concurrently.
type Metrics struct {
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider

	events, reloads, audit metric.Int64Counter
}

// NewMetrics returns metrics with these instruments, besides those that the
// methods count. What can be counted is there from the start, as zero, with the
// kinds of events that there are: an alert on a first event needs a value to
// rise from. An error is a mistake in an instrument.
func NewMetrics(instruments []Instrument, kinds []string) (*Metrics, error) {
	m := &Metrics{registry: prometheus.NewRegistry()}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry),
		otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	m.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	meter := m.provider.Meter("github.com/signalbox-mcp/signalbox")
	if err := m.count(meter); err != nil {
		return nil, err
	}
	m.begin(context.Background(), kinds)
	for _, i := range instruments {
		if err := i.register(meter); err != nil {
			return nil, fmt.Errorf("metric %s: %w", i.Name, err)
		}
	}
	return m, nil
}

// count makes the counters of the methods.
func (m *Metrics) count(meter metric.Meter) error {
	var errs [3]error
	m.events, errs[0] = meter.Int64Counter(Prefix+"events",
		metric.WithDescription("What was refused because of who asked, or came to nothing, by kind."))
	m.reloads, errs[1] = meter.Int64Counter(Prefix+"reloads",
		metric.WithDescription("Configurations put to work (applied) and not (refused) since the start."))
	m.audit, errs[2] = meter.Int64Counter(Prefix+"audit_failures",
		metric.WithDescription("Entries of the audit record that did not reach its file."))
	return errors.Join(errs[:]...)
}

func (m *Metrics) begin(ctx context.Context, kinds []string) {
	for _, kind := range kinds {
		m.addEvents(ctx, kind, 0)
	}
	m.addReloads(ctx, true, 0)
	m.addReloads(ctx, false, 0)
	m.audit.Add(ctx, 0)
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
	return []metric.ObserveOption{metric.WithAttributes(attribute.String(v.Key, v.Label))}
}

// Event counts an event of a kind, which is a constant of the code.
func (m *Metrics) Event(ctx context.Context, kind string) { m.addEvents(ctx, kind, 1) }

func (m *Metrics) addEvents(ctx context.Context, kind string, n int64) {
	m.events.Add(ctx, n, metric.WithAttributes(attribute.String("kind", kind)))
}

// Reload counts a configuration that was put to work or was not.
func (m *Metrics) Reload(ctx context.Context, applied bool) { m.addReloads(ctx, applied, 1) }

func (m *Metrics) addReloads(ctx context.Context, applied bool, n int64) {
	result := "refused"
	if applied {
		result = "applied"
	}
	m.reloads.Add(ctx, n, metric.WithAttributes(attribute.String("result", result)))
}

// AuditFailure counts an entry that did not reach its file.
func (m *Metrics) AuditFailure(ctx context.Context) { m.audit.Add(ctx, 1) }

// maxScrapes is how many collections run at once; more are refused with 503.
const maxScrapes = 4

// Handler returns a handler that shows the metrics as Prometheus reads them, with
// those of the process. What shows the latter is made for the first who asks: that
// takes longer than to make a gateway.
func (m *Metrics) Handler() http.Handler {
	show := sync.OnceValue(func() http.Handler {
		all := prometheus.Gatherers{m.registry, processRegistry()}
		return promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { show().ServeHTTP(w, r) })
}

// processRegistry returns what can be said of the process and of Go in it.
func processRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
