// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/config"
)

// reload changes the configuration of the gateway.
func (s *clockSite) reload(change func(*config.Config)) {
	s.T.Helper()
	cfg := s.cfg
	cfg.Servers = slices.Clone(cfg.Servers)
	change(&cfg)
	if err := s.G.Reload(s.T.Context(), cfg); err != nil {
		s.T.Fatal(err)
	}
	synctest.Wait()
}

func denyTool(name string) config.Policy {
	return config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "no", Deny: "true", On: []string{name}}}}
}

// A task is judged by the tool that has started it, also if another server has a tool with that name
// after a reload.
func TestPolicyOfTaskAfterRename(t *testing.T) {
	const job, other = "job", "other"
	withClockSite(t, "modern", func(cfg *config.Config) {
		cfg.Profiles = nil // of own names
		cfg.Servers[0].Rename, cfg.Servers[1].Rename = map[string]string{"long": other}, map[string]string{"long": job}
	}, func(s *clockSite) {
		c := peer{s.Gateway, s.Legacy()}
		get := `"taskId":"` + taskIDIn(s.T, c.send("tools/call", `"name":"`+job+`","task":{}`)) + `"`
		wantIn(s.T, job, c.send("tasks/result", get), "done by west")
		for _, tt := range []struct{ denied, want string }{{other, "unknown task"}, {job, "done by west"}, {"get-time", "done by west"}} {
			s.reload(func(cfg *config.Config) {
				cfg.Servers[0].Rename, cfg.Servers[1].Rename = map[string]string{"long": job}, map[string]string{"long": other}
				cfg.Policy = denyTool(tt.denied)
			})
			wantIn(s.T, tt.denied, c.send("tasks/result", get), tt.want)
		}
	})
}

// A task that a client may not use is missing from its list, and is in it again when the client may
// use it, or its server is back.
func TestListOfTasksThatAreHiddenForATime(t *testing.T) {
	withClockSite(t, "modern", nil, func(s *clockSite) {
		c := peer{s.Gateway, s.Legacy()}
		id := taskIDIn(s.T, c.send("tools/call", `"name":"west__long","task":{}`))
		for _, change := range []struct {
			what  string
			apply func(*config.Config)
			want  string
		}{
			{"at first", func(*config.Config) {}, id},
			{"hidden", func(cfg *config.Config) { cfg.Policy = denyTool("west__long") }, "!" + id},
			{"allowed", func(*config.Config) {}, id},
			{"without the server", func(cfg *config.Config) {
				cfg.Servers, cfg.Profiles = cfg.Servers[:1], nil
			}, "!" + id},
			{"with the server", func(*config.Config) {}, id},
		} {
			s.reload(change.apply)
			wantIn(s.T, change.what, c.send("tasks/list", ""), `"tasks":[`, change.want)
		}
	})
}
