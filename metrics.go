// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/metrics"
	"github.com/signalbox-mcp/signalbox/server"
)

// newMetrics returns the metrics of the gateway. docs/metrics.md lists each of them.
//
// Almost all are read on collection from counters that server, client and the catalog
// have anyway. Only the durations cost a call something: two counters each.
func (g *Gateway) newMetrics() (*metrics.Set, error) {
	instruments := append(g.ownInstruments(), g.serverInstruments()...)
	kinds := make([]string, 0, len(eventKinds()))
	// All kinds, so that each starts at zero: a rate over a series that begins with its
	// first event would miss that event.
	for _, kind := range eventKinds() {
		kinds = append(kinds, string(kind))
	}
	instruments = append(append(instruments, g.authInstruments()...), g.results.instruments()...)
	return metrics.New(append(instruments, g.backendInstruments()...), kinds)
}

// ownInstruments returns what an operator would otherwise poll /status for.
func (g *Gateway) ownInstruments() []metrics.Instrument {
	return []metrics.Instrument{
		{Name: "ready", Help: "1 while new traffic is accepted, 0 since the drain began.", Read: func() []metrics.Value {
			return metrics.One(asNumber(g.Ready()))
		}},
		{Name: "reload_refused", Help: "1 while the last configuration that was read could not be applied.", Read: func() []metrics.Value {
			return metrics.One(asNumber(g.refusal.Load() != nil))
		}},
		{Name: "problems", Help: "Items and backends that are not offered as configured.", Read: func() []metrics.Value {
			return metrics.One(int64(len(g.view.Load().catalog.Problems())))
		}},
		{Name: "lag_milliseconds", Help: "How late a timer fired at most within the last minute, while there were calls.", Read: func() []metrics.Value {
			worst, _ := g.lag.Worst()
			return metrics.One(worst.Milliseconds())
		}},
		{Name: "backends", Help: "Backends in each state: starting, live, stale, down, idle, kept.", Read: g.backendStates},
	}
}

// backendStates returns a value for each state, so that a state without backends falls
// to zero.
func (g *Gateway) backendStates() []metrics.Value {
	var counts [backend.NumStates]int64
	for _, b := range g.view.Load().backends {
		counts[b.Offer().State]++
	}
	values := make([]metrics.Value, len(counts))
	for state, n := range counts {
		// The label is the name of the state, because its number may change meaning.
		values[state] = metrics.Value{Number: n, Key: "state", Label: backend.State(state).String()}
	}
	return values
}

// serverInstruments returns what the inbound edge counts, for all clients together:
// labels per client would be values that clients choose.
func (g *Gateway) serverInstruments() []metrics.Instrument {
	gauge := func(name, help string, of func(server.Stats) int) metrics.Instrument {
		return metrics.Instrument{Name: name, Help: help, Read: func() []metrics.Value {
			return metrics.One(int64(of(g.server.Stats())))
		}}
	}
	count := func(name, help string, of func(server.Stats) uint64) metrics.Instrument {
		return metrics.Instrument{Name: name, Help: help, Counter: true, Read: func() []metrics.Value {
			return metrics.One(toInt64(of(g.server.Stats())))
		}}
	}
	return []metrics.Instrument{
		gauge("sessions", "Sessions of legacy clients over HTTP.", func(s server.Stats) int { return s.Sessions }),
		gauge("in_flight", "Requests, listens and standalone streams that are open.", func(s server.Stats) int { return s.InFlight }),
		count("requests", "Requests of clients that were not refused at the edge.", func(s server.Stats) uint64 { return s.Requests }),
		count("refused", "Requests of clients that were refused at the edge.", func(s server.Stats) uint64 { return s.Refused }),
		count("panics", "Requests that ended with an internal error because of a bug in the gateway.", func(s server.Stats) uint64 { return s.Panics }),
		count("messages_dropped", "Messages that a slow or absent client did not receive, or had not requested.", func(s server.Stats) uint64 { return s.Dropped }),
		count("messages_merged", "Messages that a newer one of the same meaning replaced before a client took them.", func(s server.Stats) uint64 { return s.Merged }),
		count("results_undelivered", "Results and errors for clients that had disconnected.", func(s server.Stats) uint64 { return s.Undelivered }),
		count("messages_replayed", "Messages that were replayed to clients that had lost a connection.", func(s server.Stats) uint64 { return s.Replayed }),
		count("messages_purged", "Messages kept for resuming clients that were dropped early, for lack of memory.", func(s server.Stats) uint64 { return s.Purged }),
		gauge("kept_bytes", "Size of the messages kept for resuming clients, in bytes.", func(s server.Stats) int { return int(s.Kept) }),
		gauge("pending_bytes", "Size of the responses that clients have not read, in bytes.", func(s server.Stats) int { return int(s.Pending) }),
	}
}

// backendInstruments returns the metrics of the backends. Their label is the configured
// name. A backend that a reload replaces starts from zero.
func (g *Gateway) backendInstruments() []metrics.Instrument {
	gauge := func(name, help string, of func(client.Stats) int) metrics.Instrument {
		return metrics.Instrument{Name: "backend_" + name, Help: help, Read: func() []metrics.Value {
			return g.eachClient(func(s client.Stats) int64 { return int64(of(s)) })
		}}
	}
	count := func(name, help string, of func(client.Stats) uint64) metrics.Instrument {
		return metrics.Instrument{Name: "backend_" + name, Help: help, Counter: true, Read: func() []metrics.Value {
			return g.eachClient(func(s client.Stats) int64 { return toInt64(of(s)) })
		}}
	}
	return []metrics.Instrument{
		{Name: "child_memory_bytes", Help: "Resident memory of the processes of the backend, in bytes.", Read: g.childMemory},
		{Name: "child_starts", Help: "Processes of the backend that were started.", Counter: true, Read: func() []metrics.Value {
			return g.eachClient(func(s client.Stats) int64 { return toInt64(s.Starts) })
		}},
		{Name: "backend_live", Help: "1 while the backend answers and its lists are fresh, or it rests until the next call.", Read: g.liveBackends},
		gauge("in_flight", "Requests to the backend that are in flight.", func(s client.Stats) int { return s.Serving }),
		count("requests", "Requests to the backend.", func(s client.Stats) uint64 { return s.Requests }),
		count("retries", "Requests to the backend that were sent again.", func(s client.Stats) uint64 { return s.Retries }),
		count("messages_late", "Messages of the backend for a request that had ended.", func(s client.Stats) uint64 { return s.Late }),
		count("messages_unknown", "Responses of the backend to requests that it never received.", func(s client.Stats) uint64 { return s.Unknown }),
		count("messages_dropped", "Messages of the backend that were dropped because they were not received in time.", func(s client.Stats) uint64 { return s.Dropped }),
		count("messages_merged", "Messages of the backend that a newer one of the same meaning replaced.", func(s client.Stats) uint64 { return s.Merged }),
	}
}

// eachClient reads one number of each backend that is not in this process.
func (g *Gateway) eachClient(of func(client.Stats) int64) []metrics.Value {
	var values []metrics.Value
	for _, b := range g.view.Load().backends {
		// A Handler in this process has no connection, and so none of these counts.
		if b.client != nil {
			values = append(values, metrics.Value{Number: of(b.client.Stats()), Key: "backend", Label: b.Name()})
		}
	}
	return values
}

// liveBackends returns a value for each backend, including those in this process, so
// that an alert on a missing one needs no list of names.
func (g *Gateway) liveBackends() []metrics.Value {
	var values []metrics.Value
	for _, b := range g.view.Load().backends {
		values = append(values, metrics.Value{Number: asNumber(b.Offer().State == backend.Live || b.Offer().State.IsResting()), Key: "backend", Label: b.Name()})
	}
	return values
}

// toInt64 converts a counter for the metrics. None of ours comes near the limit.
func toInt64(n uint64) int64 { return int64(min(n, 1<<62)) }

// asNumber converts a condition for the metrics.
func asNumber(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
