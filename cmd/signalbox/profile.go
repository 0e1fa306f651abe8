// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/clientfile"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// profileRoute is what follows the path of an endpoint in that of a profile, before the name.
const profileRoute = "/p/"

// profilePath returns the path of a profile at an endpoint.
func profilePath(endpoint, name string) string {
	return strings.TrimSuffix(endpoint, "/") + profileRoute + name
}

// atPath returns the URL of a profile of the gateway with a URL; an empty name means the whole gateway.
func atPath(gateway, name string) string {
	if name == "" {
		return gateway
	}
	return profilePath(gateway, name)
}

// connectedProfile returns the profile to which an entry connects its client, or "".
func connectedProfile(g clientfile.Gateway) string {
	if i := slices.Index(g.Args, "--profile"); i >= 0 && i+1 < len(g.Args) {
		return g.Args[i+1]
	}
	u, err := url.Parse(g.URL)
	if err != nil {
		return ""
	}
	i := strings.LastIndex(u.Path, profileRoute)
	if i < 0 {
		return ""
	}
	name, _ := profileIn(u.Path, u.Path[:i])
	return name
}

// profileIn returns the profile that a path at an endpoint names. Whether there is one is
// decided by the gateway.
func profileIn(path, endpoint string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, profilePath(endpoint, ""))
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// atProfile returns a handler of a gateway for requests to a profile.
func atProfile(next http.Handler, name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(signalbox.WithProfile(r.Context(), name)))
	})
}

// profileFlag adds the flag with the name of a profile.
func profileFlag(cmd *cobra.Command, to *string, usage string) {
	addWord(cmd, to, "profile", "", usage)
}

// checkProfile returns an error if a configuration does not have a profile. An empty name is no error.
func checkProfile(cfg *config.Config, name string) error {
	names := make([]string, len(cfg.Profiles))
	for i := range cfg.Profiles {
		names[i] = cfg.Profiles[i].Name
	}
	return unknownProfile(name, names)
}

// noProfileError is the error for a profile that a gateway does not have.
type noProfileError struct{ error }

// noProfile returns a noProfileError with a text.
func noProfile(text string) error { return noProfileError{errors.New(text)} }

// unknownProfile returns a noProfileError if a name is neither empty nor one of those.
func unknownProfile(name string, names []string) error {
	if name == "" || slices.Contains(names, name) {
		return nil
	}
	hint := spelling.DidYouMean(name, names)
	if hint == "" && len(names) > 0 {
		hint = "there are: " + strings.Join(names, ", ")
	}
	if hint == "" {
		hint = `the configuration has none; add "profiles"`
	}
	return noProfile(fmt.Sprintf("there is no profile %q (%s)", name, hint))
}

// narrow removes from a status what is not about a profile. It returns an error if the
// gateway does not have the profile. An empty name removes nothing.
func narrow(s *signalbox.Status, name string) error {
	if name == "" {
		return nil
	}
	names := make([]string, len(s.Profiles))
	for i := range s.Profiles {
		names[i] = s.Profiles[i].Name
	}
	if err := unknownProfile(name, names); err != nil {
		return err
	}
	only := s.Profiles[slices.Index(names, name)]
	var others []string // the beginnings of problems of other backends and profiles
	s.Backends = slices.DeleteFunc(s.Backends, func(b signalbox.BackendStatus) bool {
		if slices.Contains(only.Backends, b.Name) {
			return false
		}
		others = append(others, fmt.Sprintf("backend %q: ", b.Name))
		return true
	})
	for _, other := range names {
		if other != name {
			others = append(others, fmt.Sprintf("profile %q: ", other))
		}
	}
	s.Problems = slices.DeleteFunc(s.Problems, func(problem string) bool {
		return slices.ContainsFunc(others, func(begin string) bool { return strings.HasPrefix(problem, begin) })
	})
	s.Profiles = []signalbox.ProfileStatus{only}
	return nil
}

// only restricts the target to a profile of its gateway, unless the name is empty.
func (t *target) only(name string) {
	if name == "" {
		return
	}
	t.profile = name
	if status := t.status; status != nil {
		t.status = func(ctx context.Context) (*signalbox.Status, error) {
			s, err := status(ctx)
			if err != nil {
				return nil, err
			}
			return s, narrow(s, name)
		}
	}
}

// profiled sends requests to a profile of a gateway in this process.
type profiled struct {
	mcp.Handler

	name string
}

// Serve passes on the request with the profile.
func (p profiled) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	own := *req
	own.Profile = p.name
	return p.Handler.Serve(ctx, &own, caller)
}

// profileCost is the size of the definitions of the tools of a profile.
type profileCost struct {
	size

	Name  string `json:"name"`
	Count int    `json:"count"`
}

func costsOf(profiles []signalbox.ProfileStatus) []profileCost {
	var all []profileCost
	for _, p := range profiles {
		all = append(all, profileCost{size: sizeOf(p.ToolBytes), Name: p.Name, Count: p.Tools})
	}
	return all
}

// profileLine formats the costs of profiles, or returns "" if there are none.
func profileLine(profiles []profileCost) string {
	if len(profiles) == 0 {
		return ""
	}
	costs := make([]string, len(profiles))
	for i, p := range profiles {
		costs[i] = p.Name + " " + p.String()
	}
	return "profiles: " + strings.Join(costs, ", ")
}

var errProfileOverHTTP = errors.New("--profile needs --stdio; over HTTP each profile has its own path, such as /mcp/p/NAME")

// serveAttachedAt is serveAttached for a client of one profile.
func (s *service) serveAttachedAt(w http.ResponseWriter, r *http.Request) {
	name, status := r.PathValue("profile"), s.gateway.Status()
	if err := narrow(&status, name); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	atProfile(http.HandlerFunc(s.serveAttached), name).ServeHTTP(w, r)
}
