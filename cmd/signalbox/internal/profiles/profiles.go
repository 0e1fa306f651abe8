// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profiles selects one profile of a gateway: by a flag, by the path of an endpoint,
// and in a status.
package profiles

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// Route is what follows the path of an endpoint in that of a profile, before the name.
const Route = "/p/"

// Path returns the path of a profile at an endpoint.
func Path(endpoint, name string) string {
	return strings.TrimSuffix(endpoint, "/") + Route + name
}

// In returns the profile that a path at an endpoint names. Whether there is one is
// decided by the gateway.
func In(path, endpoint string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, Path(endpoint, ""))
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// Handler returns a handler of a gateway for requests to a profile.
func Handler(next http.Handler, name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(signalbox.WithProfile(r.Context(), name)))
	})
}

// Flag adds the flag with the name of a profile.
func Flag(cmd *cobra.Command, to *string, usage string) {
	command.AddWord(cmd, to, "profile", "", usage)
}

// Check returns an error if a configuration does not have a profile. An empty name is no error.
func Check(cfg *config.Config, name string) error {
	var names []string
	for i := range cfg.Profiles {
		names = append(names, cfg.Profiles[i].Name)
	}
	if name == "" || name == config.SearchProfile || slices.Contains(names, name) {
		return nil
	}
	return unknownProfile(name, names)
}

// MissingError is the error for a profile that a gateway does not have.
type MissingError struct{ error }

// Missing returns a MissingError with a text.
func Missing(text string) error { return MissingError{errors.New(text)} }

// unknownProfile returns the MissingError for a name that is not in names.
func unknownProfile(name string, names []string) error {
	hint := spelling.DidYouMean(name, names)
	if hint == "" && len(names) > 0 {
		hint = "there are: " + strings.Join(names, ", ")
	}
	if hint == "" {
		hint = `the configuration has none; add "profiles"`
	}
	return Missing(fmt.Sprintf("there is no profile %q (%s)", name, hint))
}

// Narrow removes from a status what is not about a profile. It returns an error if the
// gateway does not have the profile. An empty name removes nothing.
func Narrow(s *signalbox.Status, name string) error {
	if name == "" {
		return nil
	}
	var names []string
	for i := range s.Profiles {
		names = append(names, s.Profiles[i].Name)
	}
	at := slices.Index(names, name)
	if at < 0 {
		return unknownProfile(name, slices.DeleteFunc(names, func(n string) bool { return n == config.SearchProfile }))
	}
	only := s.Profiles[at]
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
