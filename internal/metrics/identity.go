// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// identity is the metrics of policy, quotas and the credentials for backends.
// A series is served from when its method has been called first, so that a gateway without
// these does not serve them. A caller that knows the labels beforehand calls the method
// when it reads its configuration: then the series begins with zero.
//
// No label is a principal or anything else that a sender chooses.
type identity struct {
	decisions, refreshes, quotaRefusals *prometheus.CounterVec

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

// QuotaRefusals returns the counter of the calls that a quota has refused. quota is its place
// in the configuration, such as "quotas[0]".
func (m *Set) QuotaRefusals(quota string) Counter {
	return m.identity.quotaRefusals.WithLabelValues(quota)
}

// PendingSignIns returns the gauge of the sign-ins that have begun and not ended.
func (m *Set) PendingSignIns() Gauge { return m.identity.pendings.WithLabelValues() }
