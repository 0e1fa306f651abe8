// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
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
//
// With opt.ReadsResults the gateway itself has a tool and resources.
func mergeCapabilities(backends []Backend, opt Options) []byte {
	var parts []string
	for _, c := range []struct{ name, value string }{
		{"completions", `{}`},
		{"logging", `{}`},
		{"prompts", `{"listChanged":true}`},
		{"resources", resourcesCapability(backends)},
		{"tools", `{"listChanged":true}`},
	} {
		if isOwn := opt.ReadsResults && (c.name == "resources" || c.name == "tools"); isOwn || slices.ContainsFunc(backends, func(in Backend) bool {
			return in.mayOfferAny() || declares(in.Capabilities, c.name)
		}) {
			parts = append(parts, fmt.Sprintf("%q:%s", c.name, c.value))
		}
	}
	tasks := offersTasks(backends)
	if all := extensionsCapability(tasks, opt.Apps.Declare, mergeSkills(backends)); all != "" {
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
	return string(jsonscan.Member(jsonscan.Member(capabilities, "resources"), "subscribe")) == "true"
}

// declares reports whether a capabilities object has the member with a value other than
// null.
func declares(capabilities []byte, name string) bool {
	value := jsonscan.Member(capabilities, name)
	return value != nil && string(value) != "null"
}

// maxInstructions bounds the instructions of one backend, in bytes: clients show them
// to a model at the start.
const maxInstructions = 16 << 10

// skillNames is added to the instructions if a backend with a prefix has skills: their text has the
// names of tools as their server has them.
const skillNames = "The skills and the instructions of a server name its tools without the prefix."

// mergeInstructions puts each backend's name above its instructions, because they refer
// to tools by names that may have a prefix here.
func mergeInstructions(backends []Backend, configured string) string {
	if configured != "" {
		return configured
	}
	var parts []string
	for i := range backends {
		if text := ownInstructions(&backends[i]); text != "" {
			parts = append(parts, fmt.Sprintf("# %s\n\n%s", backends[i].Name, text))
		}
	}
	if slices.ContainsFunc(backends, func(in Backend) bool { return Skills.declaredIn(in.Capabilities) && in.Rules.Label(in.Name) != "" }) {
		parts = append(parts, skillNames)
	}
	return strings.Join(parts, "\n\n")
}

// ownInstructions returns the instructions of a backend, with the names that it uses in them.
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
