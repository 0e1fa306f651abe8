// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
)

// AwaitLists waits until each backend has returned all its lists or has failed, and the Gateway
// offers what they list. The error is that of ctx, or ErrClosed.
func (g *Gateway) AwaitLists(ctx context.Context) error {
	return g.await(ctx, "", func(v *view) (left time.Duration, wait bool) {
		return noLimit, !v.built || slices.ContainsFunc(v.offered, isUnanswered)
	})
}

// isUnanswered reports whether a list of an offer is not known yet.
func isUnanswered(o *backend.Offer) bool {
	for k := range catalog.NumKinds {
		if !o.Answered(k) {
			return true
		}
	}
	return false
}

// ListProblem is a problem of lists with the configuration.
type ListProblem struct {
	config.Problem

	// Withheld reports that clients do not get an item although no rule leaves it out, and no
	// other item in its place: several servers have its name, or it is not approved. It is
	// false for a profile that is not in the configuration.
	Withheld bool
}

// ListProblems returns the problems of the current lists with the configuration: rules that match
// nothing, and items that are not offered, or not as they are listed. The Path of a problem is that
// of the rule, or else of the entry of the backend or profile. Problems of Status has them, too.
// ListProblems does not wait for backends; see AwaitLists.
func (g *Gateway) ListProblems() []ListProblem {
	v := g.view.Load()
	var all []ListProblem
	for _, p := range slices.Concat(v.catalog.Problems(), g.allAppProblems(v)) {
		found := ListProblem{Problem: v.cfg.Problem(pathOf(v.cfg, &p), p.Message(), "")}
		found.Code = p.Code
		isBuiltIn := p.Profile != "" && !slices.ContainsFunc(v.cfg.Profiles, func(of config.Profile) bool { return of.Name == p.Profile })
		found.Withheld = p.Withheld && !isBuiltIn
		all = append(all, found)
	}
	return all
}

// pathOf returns the path of what a problem is about.
func pathOf(cfg *config.Config, p *catalog.Problem) string {
	if p.Place != "" {
		return p.Place
	}
	entry, patterns := configpath.Server(p.Backend), map[string][]string(nil)
	if p.Profile != "" {
		entry = configpath.Key("profiles", p.Profile)
		for _, of := range cfg.AllProfiles() {
			if of.Name == p.Profile {
				patterns = map[string][]string{"include": of.Include, "exclude": of.Exclude, "always": of.Always}
			}
		}
	}
	for i := range cfg.Servers {
		if srv := &cfg.Servers[i]; p.Profile == "" && srv.Name == p.Backend {
			patterns = map[string][]string{"include": srv.Include, "exclude": srv.Exclude}
		}
	}
	switch i := slices.Index(patterns[p.Rule.Setting], p.Rule.Of); {
	case p.Rule.Setting == "rename":
		return configpath.Key(entry+".rename", p.Rule.Of)
	case i >= 0:
		return fmt.Sprintf("%s.%s[%d]", entry, p.Rule.Setting, i)
	default:
		return entry
	}
}

// absentNames returns patterns of the names that servers have which are disabled.
func absentNames(cfg *config.Config) (patterns []string) {
	for i := range cfg.Servers {
		if srv := &cfg.Servers[i]; srv.Disabled {
			patterns = append(append(patterns, srv.NamePrefix()+"*"), slices.Sorted(maps.Values(srv.Rename))...)
		}
	}
	return patterns
}
