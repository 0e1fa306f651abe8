// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Capabilities returns the capabilities object of the gateway: what some backend
// declares. Changes of the lists are announced in any case, by the gateway itself.
// A backend that was never reached counts as one that declares everything, because
// a client in a session reads the object once, and what comes later could not be
// declared any more. The bytes must not be changed.
func (c *Catalog) Capabilities() []byte { return c.capabilities }

// Instructions returns the configured instructions, or those of the backends with
// their names.
func (c *Catalog) Instructions() string { return c.instructions }

// mergeCapabilities writes only capabilities that the gateway itself keeps: those
// that it would have to take a backend's word for, such as experimental ones, are
// not passed on.
func mergeCapabilities(backends []Backend) []byte {
	var parts []string
	for _, c := range []struct{ name, value string }{
		{"completions", `{}`},
		{"logging", `{}`},
		{"prompts", `{"listChanged":true}`},
		{"resources", resourcesOffer(backends)},
		{"tools", `{"listChanged":true}`},
	} {
		if slices.ContainsFunc(backends, func(in Backend) bool {
			return in.State == Missing || declares(in.Capabilities, c.name)
		}) {
			parts = append(parts, fmt.Sprintf("%q:%s", c.name, c.value))
		}
	}
	if offersTasks(backends) {
		parts = append(parts, taskCapabilities[:]...)
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// resourcesOffer says that resources can be subscribed to where a backend says so of
// its own: which of its resources those are is found out when somebody subscribes.
func resourcesOffer(backends []Backend) string {
	if slices.ContainsFunc(backends, func(in Backend) bool { return in.State == Missing || subscribes(in.Capabilities) }) {
		return `{"listChanged":true,"subscribe":true}`
	}
	return `{"listChanged":true}`
}

// subscribes reports whether a capabilities object offers subscriptions.
func subscribes(capabilities []byte) bool {
	return string(member(member(capabilities, "resources"), "subscribe")) == "true"
}

// declares reports whether a capabilities object has the member. null is none.
func declares(capabilities []byte, name string) bool {
	value := member(capabilities, name)
	return value != nil && string(value) != "null"
}

// maxInstructions bounds the text of one backend, in bytes: clients show it to a
// model before anything was asked.
const maxInstructions = 16 << 10

// mergeInstructions says whose instructions are whose, because they speak of tools
// by names that may be prefixed here.
func mergeInstructions(backends []Backend, configured string) string {
	if configured != "" {
		return configured
	}
	var parts []string
	for i := range backends {
		if text := strings.TrimSpace(backends[i].Instructions); text != "" {
			parts = append(parts, fmt.Sprintf("# %s\n\n%s", backends[i].Name, shorten(text, maxInstructions)))
		}
	}
	return strings.Join(parts, "\n\n")
}

// shorten cuts a text between two characters.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + " [...]"
}
