// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

// stateKey is a secret that is no word of a person but made by a machine, and is
// called so in documents.
func stateKey() form[Secret] {
	f := secret()
	f.want = "a secret"
	return f
}

// checkStateKeys wants each key to be long enough, and to stand there once. No key
// is shown, and no length: who reads a problem is not always who may know the key.
func checkStateKeys(c *Config, j *judge) {
	list := place{}.key("state").key("keys")
	for i, key := range c.State.Keys {
		at := list.item(i)
		switch {
		case j.there(at):
		case len(key.Reveal()) < MinStateKey:
			j.complain(at, `"openssl rand -hex 32" makes one`, "%q has fewer than %d characters, and could be guessed", at.name, MinStateKey)
		default:
			checkSameKey(c.State.Keys, i, list, j)
		}
	}
}

// checkSameKey remarks on a key that stands in the list before: who adds a new one
// and repeats the old one has replaced nothing.
func checkSameKey(keys []Secret, i int, list place, j *judge) {
	for earlier := range i {
		if keys[earlier].Equal(keys[i]) {
			j.note(list.item(i), "remove one of them", "%q is the same as %q", list.item(i).name, list.item(earlier).name)
			return
		}
	}
}
