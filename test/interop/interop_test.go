// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestInterop lets every client use every server and prints the table.
func TestInterop(t *testing.T) {
	node := installNode(t)
	space := newWorkspace(t)
	all := clients(node)
	tab := table{rows: rows(all), servers: startServers(t, node, space)}
	say := answers{Name: answerName, Sample: answerSample, Root: space.rootURI()}

	checkOffers(t, tab.servers, say)
	tab.routes = append(tab.routes, route{"direct", runAll(t, all, planDirect(tab, say))})

	if err := tab.print(os.Stdout); err != nil {
		t.Error(err)
	}
	for _, line := range tab.judgeDirect() {
		t.Error(line)
	}
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

// plan is a job and the row that it is for.
type plan struct {
	row row
	job job
}

// planDirect gives each row a session with each server.
func planDirect(tab table, say answers) []plan {
	var plans []plan
	for _, r := range tab.rows {
		for _, s := range tab.servers {
			p := s.probes(fmt.Sprintf("direct-%s-%s-%s", r.client, r.version, s.name))
			p.Name = s.name
			plans = append(plans, newPlan(r, s.target, say, p))
		}
	}
	return plans
}

func newPlan(r row, at target, say answers, servers ...probes) plan {
	return plan{row: r, job: job{Version: r.version, Era: r.era(), Target: at, Answers: say, Servers: servers}}
}

// runAll does all plans, all clients at once.
func runAll(t *testing.T, all []client, plans []plan) results {
	t.Helper()
	var (
		mu    sync.Mutex
		found = make(results)
		wg    sync.WaitGroup
	)
	for _, c := range all {
		// Waited for below; a client's batch has a limit.
		wg.Go(func() {
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

// runClient does the plans of one client and sorts the outcomes into cells.
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
