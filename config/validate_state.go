// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "github.com/signalbox-mcp/signalbox/internal/seal"

// stateKey is a secret that should be generated, and is called so in documents.
func stateKey() form[Secret] {
	f := secret()
	f.want = "a secret"
	return f
}

// checkStateKeys requires keys of sufficient length, and notes repeated ones. Neither keys
// nor their lengths are shown: the reader of a problem may not be allowed to know them.
func checkStateKeys(c *Config, j *validator) {
	list := place{}.key("state").key("keys")
	for i, key := range c.State.Keys {
		at := list.item(i)
		switch {
		case j.has(at):
		case len(key.Reveal()) < seal.MinKey:
			j.report(at, `"openssl rand -hex 32" makes one`, "%q has fewer than %d characters, and could be guessed", at.name, seal.MinKey)
		default:
			checkSameKey(c.State.Keys, i, list, j)
		}
	}
}

// checkSameKey notes a repeated key: an operator that adds a new key and repeats the old one
// has replaced nothing.
func checkSameKey(keys []Secret, i int, list place, j *validator) {
	for earlier := range i {
		if keys[earlier].Equal(keys[i]) {
			j.note(list.item(i), "remove one of them", "%q is the same as %q", list.item(i).name, list.item(earlier).name)
			return
		}
	}
}
