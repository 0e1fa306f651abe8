// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

var (
	more        = flag.Bool("more", false, "build and try the clients in Rust and Java, too")
	real        = flag.Bool("real", false, "measure servers that people run, which are installed first")
	viaProfile  = flag.Bool("profile", false, "reach the gateways through a profile with all servers")
	attach      = flag.Bool("attach", false, "let clients that start programs start 'signalbox attach', with one gateway for all, and the inspector, too")
	update      = flag.Bool("update", false, "write the table to docs/interop.md")
	onlyClients = flag.String("clients", "", "run only the `clients` that are named, between commas")
	onlyServers = flag.String("servers", "", "try only the `servers` that are named, between commas")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestInterop lets every client use every server, on every route, and prints the
// table.
func TestInterop(t *testing.T) {
	tb := foreign.RepeatErrors(t)
	on := languages(tb)
	space := newWorkspace(tb)
	all := chosen(*onlyClients, clients(tb, on), func(c client) string { return c.name })
	servers := chosen(*onlyServers, startServers(tb, on, space), func(s server) string { return s.name })
	ans := answers{Name: answerName, Sample: answerSample, Root: space.rootURI()}
	checkOffers(tb, servers, ans)

	gw := newGateway(tb, servers)
	endpoint := gw.start(tb)
	gw.occupy(tb, endpoint, ans)
	ways := []way{
		{route{name: "direct", direct: true, rows: rows(all), gaps: directGaps()}, direct(servers)},
		{route{name: "through http", rows: rows(all), gaps: sharedGaps()}, through(servers, always(target{URL: endpoint.URL}))},
		{route{name: "through stdio", piped: true, rows: spawning(all), gaps: pipedGaps()}, through(servers, always(gw.stdio()))},
	}
	var attached *foreign.Process
	if *attach {
		attached = gw.startAttached(tb)
		ways[2] = way{route{name: "through attach", piped: true, rows: rows(all), gaps: sharedGaps()}, through(servers, always(gw.attach()))}
	}
	tab := table{rows: rows(all), servers: servers}
	for _, w := range ways {
		start := time.Now()
		w.route.results = runAll(tb, all, w.plans(w.route, ans))
		tb.Logf("%s: %v", w.route.name, time.Since(start).Round(time.Second))
		tab.routes = append(tab.routes, w.route)
	}
	if attached != nil {
		gw.end(tb, attached)
	}
	tokens := gw.withTokens(tb, all, servers, ans, tab.routes[1].gaps)
	gw.checkEnd(tb, endpoint)

	var text strings.Builder
	if err := tab.print(&text); err != nil {
		tb.Error(err)
	}
	var comparison strings.Builder
	if err := tab.printTokens(&comparison, tokens, tab.routes[1]); err != nil {
		tb.Error(err)
	}
	fmt.Print(text.String(), comparison.String())
	on.printSkipped(os.Stdout)
	if *update {
		writePage(tb, pageBegin, text.String())
		writePage(tb, tokensBegin, comparison.String())
	}
	for _, r := range tab.routes {
		for _, line := range tab.judge(r) {
			tb.Error(line)
		}
	}
	for _, line := range tab.differences(tokens, tab.routes[1]) {
		tb.Error(line)
	}
}

// chosen returns the named ones, or all if names is empty.
func chosen[T any](names string, all []T, nameOf func(T) string) []T {
	if names == "" {
		return all
	}
	return slices.DeleteFunc(all, func(one T) bool { return !slices.Contains(strings.Split(names, ","), nameOf(one)) })
}

// way is a route, and the plans for it.
type way struct {
	route route
	plans func(r route, ans answers) []plan
}

func rows(all []client) []row {
	var found []row
	for _, c := range all {
		for _, v := range c.versions {
			found = append(found, row{c.name, v})
		}
	}
	return found
}

// spawning returns the rows in which a client starts the gateway itself: for each SDK, the
// newest version of each era.
func spawning(all []client) []row {
	return slices.DeleteFunc(rows(all), func(r row) bool {
		return r.client == inspectorName || r.version < newestLegacy
	})
}

// plan is a job and the row that it is for.
type plan struct {
	row row
	job job
}

// direct gives each row a session with each server.
func direct(servers []server) func(route, answers) []plan {
	return func(r route, ans answers) []plan {
		var plans []plan
		for _, row := range r.rows {
			for _, s := range servers {
				if !s.tried(row, r) {
					continue
				}
				p := s.probes(tag(r, row, s))
				p.Name, p.Brief = s.name, r.known(row, s)
				plans = append(plans, newPlan(row, s.target, ans, p))
			}
		}
		return plans
	}
}

// always is the same target for every row.
func always(at target) func(row) target { return func(row) target { return at } }

// through gives each row one session with a gateway that has all servers.
func through(servers []server, at func(row) target) func(route, answers) []plan {
	return func(r route, ans answers) []plan {
		var plans []plan
		for _, row := range r.rows {
			var all []probes
			for _, s := range servers {
				if s.tried(row, r) {
					p := s.behind(row, tag(r, row, s))
					p.Brief = r.known(row, s)
					all = append(all, p)
				}
			}
			if len(all) > 0 {
				plans = append(plans, newPlan(row, at(row), ans, all...))
			}
		}
		return plans
	}
}

// tag is unique among all tests of a server.
func tag(way route, r row, s server) string {
	return strings.ReplaceAll(fmt.Sprintf("%s-%s-%s-%s", way.name, r.client, r.version, s.name), " ", "-")
}

func newPlan(r row, at target, ans answers, servers ...probes) plan {
	for i, p := range servers {
		servers[i].Errors = p.Errors.inEra(r.era())
	}
	return plan{row: r, job: job{Version: r.version, Era: r.era(), Target: at, Answers: ans, Servers: servers}}
}

// runAll runs all plans, some clients concurrently.
func runAll(t testing.TB, all []client, plans []plan) results {
	t.Helper()
	var (
		mu    sync.Mutex
		found = make(results)
		wg    sync.WaitGroup
		slots = make(chan struct{}, busy)
	)
	for _, c := range all {
		// Waited for below; a client's batch has a limit.
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			got, err := runClient(t.Context(), c, plans)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(found, got)
		})
	}
	wg.Wait()
	return found
}

// runClient runs the plans of one client and sorts the outcomes into cells.
func runClient(ctx context.Context, c client, plans []plan) (results, error) {
	var jobs []job
	var mine []plan
	for _, p := range plans {
		if p.row.client == c.name {
			p.job.ID = len(jobs)
			jobs = append(jobs, p.job)
			mine = append(mine, p)
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	outcomes, err := c.run(ctx, jobs)
	found := make(results)
	for _, o := range outcomes {
		for _, p := range mine[o.Job].job.Servers {
			if o.Feature == featureConnect || o.Server == p.Name {
				found[cell{mine[o.Job].row, p.Name, o.Feature}] = o
			}
		}
	}
	return found, err
}
