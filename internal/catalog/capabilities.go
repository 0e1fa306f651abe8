// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Capabilities returns the capabilities object of the gateway: the capabilities that
// some backend declares. The gateway itself always announces list changes. A backend
// that was never reached counts as declaring everything, because a client with a
// session reads the object only once and later additions could not be declared. The
// bytes must not be changed.
func (c *Catalog) Capabilities() []byte { return c.capabilities }

// Instructions returns the configured instructions, or those of the backends with their
// names.
func (c *Catalog) Instructions() string { return c.instructions }

// mergeCapabilities includes only capabilities that the gateway implements itself.
// Others, such as experimental ones, are not passed on, because the gateway would
// depend on a backend for them.
func mergeCapabilities(backends []Backend, opt Options) []byte {
	var parts []string
	for _, c := range []struct{ name, value string }{
		{"completions", `{}`},
		{"logging", `{}`},
		{"prompts", `{"listChanged":true}`},
		{"resources", resourcesCapability(backends)},
		{"tools", `{"listChanged":true}`},
	} {
		if slices.ContainsFunc(backends, func(in Backend) bool {
			return in.mayOfferAny() || declares(in.Capabilities, c.name)
		}) {
			parts = append(parts, fmt.Sprintf("%q:%s", c.name, c.value))
		}
	}
	tasks := offersTasks(backends)
	if all := extensionsCapability(tasks, opt.Apps.Declare); all != "" {
		parts = append(parts, all)
	}
	if tasks {
		parts = append(parts, legacyTasks)
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// mayOfferAny reports whether the backend may come to offer items of any kind.
func (b *Backend) mayOfferAny() bool { return b.State == Missing || b.IsPartial }

// resourcesCapability declares subscriptions if some backend does. Which of its
// resources support them is found out on subscription.
func resourcesCapability(backends []Backend) string {
	if slices.ContainsFunc(backends, func(in Backend) bool { return in.mayOfferAny() || subscribes(in.Capabilities) }) {
		return `{"listChanged":true,"subscribe":true}`
	}
	return `{"listChanged":true}`
}

// subscribes reports whether a capabilities object declares resource subscriptions.
func subscribes(capabilities []byte) bool {
	return string(member(member(capabilities, "resources"), "subscribe")) == "true"
}

// declares reports whether a capabilities object has the member with a value other than
// null.
func declares(capabilities []byte, name string) bool {
	value := member(capabilities, name)
	return value != nil && string(value) != "null"
}

// maxInstructions bounds the instructions of one backend, in bytes: clients show them
// to a model at the start.
const maxInstructions = 16 << 10

// mergeInstructions puts each backend's name above its instructions, because they refer
// to tools by names that may have a prefix here.
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

// ownInstructions returns the instructions of a backend alone, with the names that it uses in them.
func ownInstructions(in *Backend) string {
	return shorten(strings.TrimSpace(in.Instructions), maxInstructions)
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
