// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package marks

// In keys, the eras of client and backend are written as "legacy to modern".

// All returns the marks of the gateway in its default configuration. Each is an argument
// about what a gateway may cost: a hop as much as a plain reverse proxy, a list less than
// fetching it, a session less than the connection below it.
//
// A value far from its mark also has a bound: the worst value of all cells in the latest
// measurement, in either form, with a quarter of room for ratios and times, which vary from
// run to run and between machines of one kind, and a fifth for counts, which hardly vary. A
// ratio that keeps its mark by less than such noise has a bound too. A change that makes
// something cheaper lowers the bound, and removes it once the mark is as strict.
//
// The bound on a slow machine is the worst value measured on one, with a tenth of room.
func All() []Mark {
	return []Mark{
		{Name: "tools/call, CPU x RP, 100 B", Keys: "calls/100 B/*/cpu-rp", Limit: 1.2, Bound: 1.5, Slow: 1.55, Short: true},
		{Name: "tools/call, CPU x RP, 10 KiB", Keys: "calls/10 KiB/*/cpu-rp", Limit: 1.2, Bound: 1.4, Slow: 1.7, Short: true},
		{Name: "tools/call, CPU x RP, 1 MiB", Keys: "calls/1 MiB/*/cpu-rp", Limit: 1.15, Bound: 1.35, Slow: 1.6, Short: true},
		{Name: "tools/call, calls/s against RP, 100 B", Keys: "calls/100 B/*/rate-rp", Limit: 0.85, Bound: 0.7, Least: true, Short: true},
		{Name: "tools/call, calls/s against RP, 10 KiB", Keys: "calls/10 KiB/*/rate-rp", Limit: 0.85, Bound: 0.7, Slow: 0.62, Least: true, Short: true},
		{Name: "tools/call, calls/s against RP, 1 MiB", Keys: "calls/1 MiB/*/rate-rp", Limit: 0.85, Slow: 0.68, Least: true, Short: true},
		{Name: "tools/call, added p50 against RP", Keys: "calls/*/*/added-p50-rp", Limit: 1.2, Bound: 1.6},
		{Name: "tools/call, added p99 against RP", Keys: "calls/*/*/added-p99-rp", Limit: 1.5},
		{Name: "tools/call, allocations beyond net/http's, 100 B", Keys: "calls/100 B/*/allocs-ours", Limit: 0, Short: true},
		{Name: "tools/call, allocations beyond net/http's, 10 KiB", Keys: "calls/10 KiB/*/allocs-ours", Limit: 0, Bound: 2, Short: true},
		{Name: "tools/call, allocations beyond net/http's, 1 MiB", Keys: "calls/1 MiB/*/allocs-ours", Limit: 0, Bound: 5, Short: true},
		{Name: "tools/call to stdio from stdio, added p50", Keys: "stdio/100 B/*, on pipes/added-p50", Limit: 100, Bound: 135, Unit: " us"},
		{Name: "tools/call to stdio from HTTP, added p50", Keys: "stdio/100 B/*, over HTTP/added-p50", Limit: 100, Bound: 270, Unit: " us"},
		{Name: "tools/call, CPU beside 200 backends against 1", Keys: "backends/one of 200/*/cpu-1", Limit: 1.1, Short: true},
		{Name: "tools/call, CPU spread over 200 backends against 1", Keys: "backends/200/*/cpu-1", Limit: 1.1, Bound: 1.5, Short: true},
		{Name: "tools/call, CPU spread over 200 backends against 1, x RP", Keys: "backends/200/*/cpu-1-rp", Limit: 1.1, Short: true},
		{Name: "tools/call, CPU with 1000 tools against 10", Keys: "tools/1000/*/cpu-10", Limit: 1.1, Short: true},
		{Name: "tools/call, CPU beside idle sessions against none", Keys: "beside/*/*/cpu-0", Limit: 1.1, Short: true},
		{Name: "tools/list, CPU x RP, 10 over 1", Keys: "lists/10 over 1/*/cpu-rp", Limit: 0.5, Bound: 0.62, Short: true},
		{Name: "tools/list, CPU x RP, 1000 over 20", Keys: "lists/1000 over 20/*/cpu-rp", Limit: 0.6, Short: true},
		{Name: "tools/list, CPU of 1000 over 20 against over 1", Keys: "lists/1000 over 20/*/cpu-1", Limit: 1.1, Bound: 1.35, Short: true},
		{Name: "tools/list, CPU for each tool of 1000 against 100", Keys: "lists/1000 over */*/cpu-tool", Limit: 1.1},
		{Name: "initialize/s against a bare handler", Keys: "sessions/*/initialize/rate-mint", Limit: 0.6, Bound: 0.45, Least: true, Short: true},
		{Name: "initialize, CPU with 20 backends against 1", Keys: "sessions/20 backends/initialize/cpu-1", Limit: 1.1, Short: true},
		{Name: "memory of an idle session without a stream", Keys: "idle/*/without a stream/live", Limit: 2, Unit: " KiB", Short: true},
		{Name: "memory of an idle session with its stream", Keys: "idle/*/with its stream*/live", Limit: 32, Unit: " KiB", Short: true},
		{Name: "resident memory of an idle session without a stream", Keys: "idle/*/without a stream/rss", Limit: 2, Unit: " KiB"},
		{Name: "resident memory of an idle session with its stream", Keys: "idle/*/with its stream*/rss", Limit: 32, Unit: " KiB"},
		{Name: "resident memory of 100,000 sessions with their streams", Keys: "idle/100000 sessions*/with its stream*/total", Limit: 4096, Unit: " MiB"},
		{Name: "idle sessions that still serve", Keys: "idle/*/*/serves", Limit: 1, Least: true, Short: true},
		{Name: "memory of an 8 MiB result in flight", Keys: "flight/8 MiB/*/live", Limit: 256, Unit: " KiB", Short: true},
		{Name: "ready with 20 backends", Keys: "ready/*/*/ready", Limit: 50, Unit: " ms"},
		{Name: "resident memory when idle with 20 backends", Keys: "ready/*/*/rss", Limit: 20, Unit: " MiB"},
		{Name: "attach to initialize, with a gateway", Keys: "attach/initialize/with a gateway/ms", Limit: 50, Unit: " ms"},
		{Name: "attach to initialize, without a gateway", Keys: "attach/initialize/without a gateway/ms", Limit: 300, Unit: " ms"},
		{Name: "resident memory of attach", Keys: "attach/memory/one/rss", Limit: 12, Unit: " MiB"},
		{Name: "processes of 10 shared servers, 5 clients on attach", Keys: "attach/processes/shared/servers", Limit: 10},
		{Name: "size of the program", Keys: "ready/program/size/bytes", Limit: 30, Unit: " MiB", Short: true},
		{Name: "growth, goroutines", Keys: "growth/*/*/goroutines", Limit: 0, Short: true},
		{Name: "growth, descriptors", Keys: "growth/*/*/descriptors", Limit: 0, Short: true},
		{Name: "growth, resident memory against the start", Keys: "growth/*/*/rss", Limit: 1.1},
		{Name: "scanner, 10 KiB of typical JSON", Keys: "parts/mcp/Parse, text 10 KiB/rate", Limit: 1000, Least: true, Unit: " MB/s"},
		{Name: "scanner, 10 KiB, allocations", Keys: "parts/mcp/Parse, * 10 KiB/allocs", Limit: 0},
		{Name: "tools/call with an id and a record, time x without", Keys: "record/call/*/time-without", Limit: 1.03},
		{Name: "fetches of keys for 60 s of random key ids", Keys: "flood/tokens that a key could be fetched for/calls/fetches", Limit: 3},
		{Name: "tools/call, p99 beside random key ids against expired tokens", Keys: "flood/*/calls/p99-expired", Limit: 1.2},
		{Name: "errors", Keys: "*/*/*/errors", Limit: 0, Short: true},
	}
}
