// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "slices"

// unread records the values of a file that are not in the Config, or not as written, because
// they were rejected. It lets the Config be validated in spite of that, so that a problem
// does not hide others, and does not cause further ones. The zero value is that of a Config
// read without problems, or made by a program.
type unread struct {
	refused map[string]bool // paths of rejected values
	guessed map[string]bool // paths of keys that an unknown key may mean
}

func (u *unread) refuse(p place) { mark(&u.refused, p) }
func (u *unread) guess(p place)  { mark(&u.guessed, p) }

func mark(set *map[string]bool, p place) {
	if *set == nil {
		*set = make(map[string]bool)
	}
	(*set)[p.path] = true
}

// there reports whether the value at a place was rejected: it is not missing, but unknown.
func (u *unread) there(p place) bool { return u.refused[p.path] }

// meant reports whether the value was rejected, or an unknown key seems to mean the place.
func (u *unread) meant(p place) bool { return u.there(p) || u.guessed[p.path] }

// someMeant reports whether meant is true for one of the places.
func (u *unread) someMeant(places ...place) bool {
	return slices.ContainsFunc(places, u.meant)
}

// partly reports whether one of the first n elements of a list was rejected.
func (u *unread) partly(list place, n int) bool {
	for i := range n {
		if u.there(list.item(i)) {
			return true
		}
	}
	return false
}
