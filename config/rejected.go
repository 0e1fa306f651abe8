// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "slices"

// rejected records the values of a file that are not in the Config, or not as written, because
// they were rejected. It lets the Config be validated in spite of that, so that a problem
// does not hide others, and does not cause further ones. The zero value is that of a Config
// read without problems, or made by a program.
type rejected struct {
	values    map[string]bool // paths of rejected values
	meantKeys map[string]bool // paths of keys that an unknown key may mean
}

func (u *rejected) add(p place)      { addTo(&u.values, p) }
func (u *rejected) addMeant(p place) { addTo(&u.meantKeys, p) }

func addTo(set *map[string]bool, p place) {
	if *set == nil {
		*set = make(map[string]bool)
	}
	(*set)[p.path] = true
}

// has reports whether the value at a place was rejected: it is not missing, but unknown.
func (u *rejected) has(p place) bool { return u.values[p.path] }

// hasOrMeant reports whether the value was rejected, or an unknown key seems to mean the
// place.
func (u *rejected) hasOrMeant(p place) bool { return u.has(p) || u.meantKeys[p.path] }

// hasAnyOrMeant reports whether hasOrMeant is true for one of the places.
func (u *rejected) hasAnyOrMeant(places ...place) bool {
	return slices.ContainsFunc(places, u.hasOrMeant)
}

// hasItem reports whether one of the first n elements of a list was rejected.
func (u *rejected) hasItem(list place, n int) bool {
	for i := range n {
		if u.has(list.item(i)) {
			return true
		}
	}
	return false
}
