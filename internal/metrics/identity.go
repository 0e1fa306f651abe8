// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// identity is the metrics of authentication, policy, quotas and the credentials for backends.
// A series is served from when its method has been called first, so that a gateway without
// these does not serve them. A caller that knows the labels beforehand calls the method
// when it reads its configuration: then the series begins with zero.
//
// No label is a principal or anything else that a sender chooses.
type identity struct {
	decisions, refreshes, keyFetches, quotaRefusals *prometheus.CounterVec

	pendings *prometheus.GaugeVec
}

func newIdentity(to prometheus.Registerer) identity {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: Prefix + name + "_total", Help: help}, labels)
		to.MustRegister(c)
		return c
	}
	i := identity{
		decisions:     counter("decisions", "Decisions of the policy about calls, by rule.", "decision", "rule"),
		refreshes:     counter("refreshes", "Refreshes of grants for backends, by outcome.", "backend", "outcome"),
		keyFetches:    counter("key_fetches", "Fetches of the signing keys of issuers, by outcome.", "issuer", "outcome"),
		quotaRefusals: counter("quota_refusals", "Calls that were refused because a quota was used up.", "quota"),
		pendings:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: Prefix + "pending_sign_ins", Help: "Sign-ins that wait for a person."}, nil),
	}
	to.MustRegister(i.pendings)
	return i
}

// Counter is one series of a counter. Its method may be called concurrently and does not
// allocate.
type Counter interface{ Inc() }

// Gauge is one series of a gauge. Its method may be called concurrently.
type Gauge interface{ Set(float64) }

// Authentication is how many requests with a form of credential had an outcome.
type Authentication struct {
	Form, Outcome string // constants of the code
	Number        uint64
}

// ReadAuthentications serves the numbers of authentications that read returns for each
// collection. read may be called concurrently, and must return each form and outcome once.
// ReadAuthentications is called once.
func (m *Set) ReadAuthentications(read func() []Authentication) {
	m.registry.MustRegister(authentications{read, prometheus.NewDesc(Prefix+"authentications_total",
		"Requests by the form of their credential and the outcome of its check.", []string{"form", "outcome"}, nil)})
}

type authentications struct {
	read func() []Authentication
	desc *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (a authentications) Describe(to chan<- *prometheus.Desc) { to <- a.desc }

// Collect implements [prometheus.Collector].
func (a authentications) Collect(to chan<- prometheus.Metric) {
	for _, n := range a.read() {
		to <- prometheus.MustNewConstMetric(a.desc, prometheus.CounterValue, float64(n.Number), n.Form, n.Outcome)
	}
}

// Decisions returns the counter of the decisions that a rule of the policy has made. Both
// are of the configuration or the code.
func (m *Set) Decisions(rule, decision string) Counter {
	return m.identity.decisions.WithLabelValues(decision, rule)
}

// Refreshes returns the counter of refreshes of grants for a backend with an outcome, which
// is a constant of the code.
func (m *Set) Refreshes(backend, outcome string) Counter {
	return m.identity.refreshes.WithLabelValues(backend, outcome)
}

// KeyFetches returns the counter of fetches of the signing keys of an issuer, by its
// configured name, with an outcome that is a constant of the code.
func (m *Set) KeyFetches(issuer, outcome string) Counter {
	return m.identity.keyFetches.WithLabelValues(issuer, outcome)
}

// QuotaRefusals returns the counter of the calls that a quota has refused. quota is its place
// in the configuration, such as "quotas[0]".
func (m *Set) QuotaRefusals(quota string) Counter {
	return m.identity.quotaRefusals.WithLabelValues(quota)
}

// PendingSignIns returns the gauge of the sign-ins that have begun and not ended.
func (m *Set) PendingSignIns() Gauge { return m.identity.pendings.WithLabelValues() }
